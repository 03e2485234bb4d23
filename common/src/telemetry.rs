//! Logs.

use std::str::FromStr;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, filter::LevelFilter};

mod repeats;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

/// Starts logging to standard error. `verbosity` is that of the Go programs' `-v`: up to 3 tells
/// changes, 4 and more tells decisions, 6 and more everything. `RUST_LOG` overrides it. As long as
/// decisions are not told, a warning stands for those like it for a minute.
pub fn start(verbosity: u8, format: LogFormat) {
    // The client's own lines about failed requests say less than ours about the same.
    let level = match verbosity {
        0..=3 => "info,kube_client::client=off,kube_runtime::watcher=off",
        4..=5 => {
            "info,mooring_common=debug,mooring_central=debug,mooring_node=debug,\
             kube_client::client=off,kube_runtime::watcher=off"
        }
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    // Whoever asks for decisions wants each of them.
    let once = filter
        .max_level_hint()
        .is_none_or(|most| most < LevelFilter::DEBUG)
        .then(repeats::OncePerMinute::default);
    let started = tracing_subscriber::registry()
        .with(filter)
        .with(match once {
            Some(once) => lines.with_filter(once).boxed(),
            None => lines,
        })
        .try_init();
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}
