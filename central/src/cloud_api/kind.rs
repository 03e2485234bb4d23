//! Kinds of resources, and the requests about them.

use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::Request;

/// Stands for the ID of what a resource belongs to.
const OWNER: &str = "{}";

/// A kind of resource: where it is, and what metrics call the requests about it.
#[derive(Debug)]
pub struct Kind {
    /// Where they are; each `{}` stands for the ID of what they belong to, the outermost first.
    pub path: &'static str,
    /// What asking for all of them is called.
    pub list: &'static str,
    /// What asking for one is called.
    pub get: &'static str,
    /// What making one is called.
    pub create: &'static str,
    /// What changing one is called.
    pub change: &'static str,
    /// The method of that.
    pub method: Method,
    /// What deleting one is called.
    pub delete: &'static str,
}

/// Defines [`Kind`]s, each by what one and all of them are called, and where they are: `get_vpc`, `list_vpcs`.
/// One may be changed by another method than `PUT`, and that may be called otherwise.
#[macro_export]
macro_rules! resource_kinds {
    ($($(#[$doc:meta])* $visible:vis $name:ident: $one:literal, $all:literal, $path:literal
        $(, $method:ident $change:literal)?;)*) => {
        $($(#[$doc])* $visible const $name: $crate::cloud_api::Kind = $crate::cloud_api::Kind {
            $(method: reqwest::Method::$method, change: $change,)?
            ..$crate::cloud_api::Kind {
                path: $path,
                list: concat!("list_", $all),
                get: concat!("get_", $one),
                create: concat!("create_", $one),
                change: concat!("update_", $one),
                method: reqwest::Method::PUT,
                delete: concat!("delete_", $one),
            }
        };)*
    };
}

/// What a cloud is told of something: nothing of what is null.
#[must_use]
pub fn body(what: &impl Serialize) -> Value {
    fn said(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|_, value| !value.is_null());
                fields.values_mut().for_each(said);
            }
            Value::Array(values) => values.iter_mut().for_each(said),
            _ => {}
        }
    }
    let mut body = json!(what);
    said(&mut body);
    body
}

/// All that both say.
#[must_use]
pub fn with(what: impl Serialize, more: impl Serialize) -> Value {
    let mut body = json!({});
    json_patch::merge(&mut body, &json!(what));
    json_patch::merge(&mut body, &json!(more));
    body
}

/// The requests about a kind. `of`: what they belong to.
impl Kind {
    fn path(&self, of: &[&str]) -> String {
        let replace = |path: String, id: &&str| path.replacen(OWNER, id, 1);
        of.iter().fold(self.path.to_owned(), replace)
    }

    /// All of them.
    #[must_use]
    pub fn list(&self, of: &[&str]) -> Request {
        Request::get(self.list, self.path(of))
    }

    /// One.
    #[must_use]
    pub fn get(&self, of: &[&str], id: &str) -> Request {
        Request::get(self.get, format!("{}/{id}", self.path(of)))
    }

    /// A new one.
    #[must_use]
    pub fn create(&self, of: &[&str], body: Value) -> Request {
        Request::new(self.create, Method::POST, self.path(of)).json(body)
    }

    /// Something about one.
    #[must_use]
    pub fn change(&self, of: &[&str], id: &str, body: Value) -> Request {
        let path = format!("{}/{id}", self.path(of));
        Request::new(self.change, self.method.clone(), path).json(body)
    }

    /// What is done to one by a request of its own, at the path `verb` below it. `called`: by metrics.
    #[must_use]
    pub fn act(
        &self,
        (of, id): (&[&str], &str),
        (method, verb): (Method, &str),
        called: &'static str,
    ) -> Request {
        Request::new(called, method, format!("{}/{id}/{verb}", self.path(of)))
    }

    /// The end of one.
    #[must_use]
    pub fn delete(&self, of: &[&str], id: &str) -> Request {
        let path = format!("{}/{id}", self.path(of));
        Request::new(self.delete, Method::DELETE, path)
    }
}
