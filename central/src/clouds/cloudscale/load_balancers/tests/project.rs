//! A project of cloudscale.ch for tests: keeps what it is given.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::cloud_api::testing::{Cloud, Reply, Seen};

/// What is there, by path.
#[derive(Clone, Default)]
pub(super) struct Project {
    all: Arc<Mutex<Vec<(String, Value)>>>,
    failing: Arc<Mutex<Option<(String, Reply)>>>,
    refused: Arc<Mutex<Option<(String, String)>>>,
    lingers: Arc<AtomicBool>,
}

impl Project {
    pub(super) async fn start(&self) -> Cloud {
        let project = self.clone();
        Cloud::start(move |seen, _| project.answer(seen)).await
    }

    /// The next request that begins like this is answered so.
    pub(super) fn fail_once(&self, line: &str, reply: Reply) {
        *self.failing.lock().unwrap() = Some((line.to_owned(), reply));
    }

    /// Whether the request that was to fail has come.
    pub(super) fn has_failed(&self) -> bool {
        self.failing.lock().unwrap().is_none()
    }

    /// From now on, requests that begin like this and whose body has this in it are refused.
    pub(super) fn refuse(&self, line: &str, body: &str) {
        *self.refused.lock().unwrap() = Some((line.to_owned(), body.to_owned()));
    }

    /// From now on, what is deleted is listed as `changing`, until it is [cleared](Self::clear).
    pub(super) fn linger(&self) {
        self.lingers.store(true, Ordering::SeqCst);
    }

    pub(super) fn put(&self, path: &str, value: Value) {
        self.all.lock().unwrap().push((path.to_owned(), value));
    }

    pub(super) fn clear(&self) {
        self.all.lock().unwrap().clear();
    }

    pub(super) fn remove(&self, uuid: &str) {
        let mut all = self.all.lock().unwrap();
        all.retain(|(_, object)| object["uuid"] != uuid);
    }

    pub(super) fn set(&self, uuid: &str, key: &str, value: Value) {
        let mut all = self.all.lock().unwrap();
        let found = all.iter_mut().find(|(_, object)| object["uuid"] == uuid);
        found.unwrap().1[key] = value;
    }

    /// Of a floating IP.
    pub(super) fn set_network(&self, network: &Value, key: &str, value: Value) {
        let mut all = self.all.lock().unwrap();
        let mut all = all.iter_mut();
        let found = all.find(|(_, object)| object["network"] == *network);
        found.unwrap().1[key] = value;
    }

    pub(super) fn of(&self, path: &str) -> Vec<Value> {
        let all = self.all.lock().unwrap();
        let of = all.iter().filter(|(kind, _)| kind == path);
        of.map(|(_, object)| object.clone()).collect()
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let mut failing = self.failing.lock().unwrap();
        if failing
            .as_ref()
            .is_some_and(|(line, _)| seen.line.starts_with(line))
        {
            return failing.take().unwrap().1;
        }
        if let Some((line, body)) = &*self.refused.lock().unwrap()
            && seen.line.starts_with(line)
            && seen.body.to_string().contains(body)
        {
            return Reply::json(json!({"address": ["Not in this subnet."]})).status(400);
        }
        let (method, path) = seen.line.split_once(" /v1/").unwrap();
        let (kind, uuid) = path.rsplit_once('/').unwrap_or((path, ""));
        let not_found = || Reply::json(json!({"detail": "Not found."})).status(404);
        let is_this = |object: &Value| object["uuid"] == uuid || object["address"] == uuid;
        match method {
            "GET" if is_collection(path) => Reply::json(Value::Array(self.of(path))),
            "GET" => {
                let of = self.of(kind);
                let found = of.iter().find(|object| is_this(object));
                found.map_or_else(not_found, Reply::json)
            }
            "POST" => {
                let mut object = seen.body.clone();
                object["uuid"] = json!(uuid::Uuid::new_v4().to_string());
                for key in ["pool", "load_balancer", "subnet", "flavor", "zone"] {
                    let uuid = object[key].clone();
                    if !uuid.is_null() {
                        object[key] = json!({"uuid": uuid, "slug": uuid});
                    }
                }
                if path == "load-balancers" {
                    object["status"] = json!("changing");
                    object["vip_addresses"] = json!([{"address": "203.0.113.7"}]);
                }
                self.put(path, object.clone());
                Reply::json(object).status(201)
            }
            _ => {
                let mut all = self.all.lock().unwrap();
                let mut those = all.iter().enumerate();
                let found = those.find(|(_, (of, object))| of == kind && is_this(object));
                let Some((index, _)) = found else {
                    return not_found();
                };
                if method == "DELETE" && self.lingers.load(Ordering::SeqCst) {
                    all[index].1["status"] = json!("changing");
                } else if method == "DELETE" {
                    all.remove(index);
                } else {
                    for (key, value) in seen.body.as_object().unwrap() {
                        all[index].1[key] = value.clone();
                    }
                }
                Reply::json("").status(204)
            }
        }
    }
}

fn is_collection(path: &str) -> bool {
    let kinds = [
        "servers",
        "load-balancers",
        "pools",
        "listeners",
        "health-monitors",
    ];
    let last = path.rsplit('/').next().unwrap();
    kinds.contains(&last) || ["floating-ips", "members"].contains(&last)
}
