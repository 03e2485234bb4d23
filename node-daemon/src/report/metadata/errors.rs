//! Why nothing can be said of the machine.

use std::path::PathBuf;

use http::StatusCode;
use mooring_common::machines::Resolution;
use mooring_common::names::reasons;

/// Why nothing can be said of the machine. No message contains a token.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// A file of the host cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The machines file has no entry that can be taken.
    #[error("{}", .0.explanation().unwrap_or_default())]
    Unresolved(Box<Resolution>),
    /// The machines file says that this machine does not exist.
    #[error(
        "The machines file has state terminated for {entry}, yet it runs. Correct the state, or \
         switch the machine off."
    )]
    Terminated {
        /// What the entry is called.
        entry: String,
    },
    /// The source asked for has nothing to read.
    #[error("--metadata-source=file needs a machines file; name one, or choose another source")]
    NoMachinesFile,
    /// The search for a source is not over.
    #[error("no metadata source has been found yet")]
    Searching,
    /// A metadata service does not answer, or not as a metadata service does.
    #[error(
        "{url}: {problem}; check that this machine reaches its metadata service, or set \
         --metadata-endpoint or --metadata-source"
    )]
    Unanswered {
        /// What was asked.
        url: String,
        /// What came of it.
        problem: Problem,
    },
    /// A metadata service answers, and has nothing of what this source needs.
    #[error(
        "{url}: status {status}; this machine is none of {source_name}'s, or its metadata service \
         is at another --metadata-endpoint; set --metadata-source or --metadata-endpoint"
    )]
    NotServed {
        /// What was asked.
        url: String,
        /// The answer.
        status: StatusCode,
        /// The source's name.
        source_name: &'static str,
    },
    /// What was read is no whole JSON document.
    #[error(
        "{from} is no whole JSON document ({problem}); check what answers there, or set \
         --metadata-source"
    )]
    NotJson {
        /// Where it was read.
        from: String,
        /// What is wrong with it.
        problem: serde_json::Error,
    },
    /// A value cannot be what it should be.
    #[error(
        "{key} of {from} is {value}, which is {fault}; have the metadata corrected, or set another \
         --metadata-source"
    )]
    Malformed {
        /// Where it was read.
        from: String,
        /// The value's key.
        key: String,
        /// The value, shortened.
        value: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Two values cannot both be true.
    #[error(
        "{key} of {from} is {value}, but {other}; have the metadata corrected, or set another \
         --metadata-source"
    )]
    Contradictory {
        /// Where it was read.
        from: String,
        /// The value's key.
        key: String,
        /// The value, shortened.
        value: String,
        /// What it contradicts: key and value.
        other: String,
    },
}

/// What came of a request, other than an answer.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    /// Nobody takes the connection.
    #[error("nobody takes the connection")]
    ConnectTimeout,
    /// The answer took too long.
    #[error("no whole answer in time")]
    TooSlow,
    /// The answer ends before its end.
    #[error("the answer is cut off")]
    CutOff,
    /// The answer is longer than any metadata.
    #[error("the answer is too long")]
    TooLong,
    /// What answers does not speak HTTP as one should.
    #[error("the answer is no HTTP: {0}")]
    NotHttp(hyper::Error),
    /// The answer is no text.
    #[error("the answer is no text")]
    NotText,
    /// The answer leads elsewhere. Metadata services do not, so it is not followed.
    #[error("status {0}, a redirection, which is not followed")]
    Redirected(StatusCode),
    /// The answer has another status than it should.
    #[error("status {0}")]
    Status(StatusCode),
    /// The answer to the request for a token is none. What it is instead is not told.
    #[error("the answer is no token")]
    NoToken,
}

impl MetadataError {
    /// Whether asking again soon may help, without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::Searching | Self::Unanswered { .. } | Self::NotJson { .. }
        )
    }

    /// Whether there is nobody at the endpoint, whatever is asked.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Unanswered {
                problem: Problem::Connect(_) | Problem::ConnectTimeout,
                ..
            }
        )
    }

    /// The reason of the Event that tells of it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unresolved(resolution) => match resolution.reason() {
                Some(reason) => reason,
                None => reasons::INITIALIZATION_REFUSED,
            },
            _ => reasons::INITIALIZATION_REFUSED,
        }
    }
}
