//! What there is in a simulated cloudscale.ch.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::machine::complete;
use crate::cloud_sim::TOKEN;
use crate::cloud_sim::rows::Rows;

pub(super) struct State {
    pub(super) token: String,
    pub(super) url: String,
    pub(super) servers: Rows,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            token: TOKEN.to_owned(),
            url: String::new(),
            servers: Rows::default(),
        }
    }

    pub(super) fn add_server(&mut self, given: &Value) -> String {
        let uuid = match given["uuid"].as_str() {
            Some(uuid) => uuid.to_owned(),
            None => uuid::Uuid::new_v4().to_string(),
        };
        let server = complete(given, &uuid, &self.url);
        self.servers.add(uuid.clone(), server);
        uuid
    }

    pub(super) fn load(&mut self, content: &Value) -> Result<()> {
        let object = content.as_object().context("write an object")?;
        for (key, value) in object {
            match (key.as_str(), value) {
                ("servers", Value::Array(servers)) => {
                    for server in servers {
                        self.add_server(server);
                    }
                }
                ("servers", _) => bail!("servers: write a list"),
                _ => bail!("{key}: only servers can be given"),
            }
        }
        Ok(())
    }
}
