//! How both programs talk to the Kubernetes API: one client, watches that keep only what is
//! looked at, and Events.

mod cache;
mod client;
mod connection;
mod events;
mod first_alone;
mod watching;

pub use cache::{Cache, Change, ObjectKey, Slim};
pub use client::{ClientError, ClientOptions, client, of_this_machine};
pub use connection::Connections;
pub use events::{EventKind, Events};
pub use watching::watch;

/// What an error of the API server means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// The object is not there (any more).
    NotFound,
    /// Somebody else changed the object meanwhile: read it again.
    Conflict,
    /// It is refused for good: by validation, by admission, or for want of permission.
    Refused,
    /// It may work later.
    Transient,
}

/// Classifies an error of the API server. A failed `test` of a JSON patch (RFC 6902, 4.6) is a
/// conflict: the API server reports it as 422 without causes, whereas a refusal by validation or
/// by an admission policy has causes. A UID that is another object's is one as well: that of an object that was
/// deleted and made anew may be reported as a field that is not to be changed.
#[must_use]
pub fn classify(error: &kube::Error) -> ApiFailure {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => ApiFailure::NotFound,
            409 => ApiFailure::Conflict,
            422 if is_overtaken(status) => ApiFailure::Conflict,
            400 | 401 | 403 | 405 | 422 => ApiFailure::Refused,
            _ => ApiFailure::Transient,
        },
        _ => ApiFailure::Transient,
    }
}

/// Whether a 422 says nothing else than that the object is not the one that was read.
fn is_overtaken(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .all(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn classified(code: u16, causes: &Value) -> ApiFailure {
        let status = json!({ "code": code, "details": { "causes": causes } });
        classify(&kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn object_made_anew_is_conflict_and_invalid_one_is_refused() {
        let uid = json!({ "reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid" });
        let other =
            json!({ "reason": "FieldValueInvalid", "message": "no", "field": "spec.providerID" });
        assert_eq!(classified(422, &json!([])), ApiFailure::Conflict);
        assert_eq!(classified(422, &json!([uid])), ApiFailure::Conflict);
        assert_eq!(classified(422, &json!([uid, other])), ApiFailure::Refused);
        assert_eq!(classified(422, &json!([other])), ApiFailure::Refused);
        assert_eq!(classified(409, &json!([])), ApiFailure::Conflict);
        assert_eq!(classified(404, &json!([])), ApiFailure::NotFound);
    }
}
