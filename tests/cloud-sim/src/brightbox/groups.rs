//! Server groups.

use serde_json::{Map, Value, json};

use super::answers::Refusal;
use super::kind::Kind;
use super::state::{Event, State, has};
use super::strict::{self, Field, Is};

const FIELDS: &[Field] = &[("name", Is::Text), ("description", Is::Text)];

impl State {
    pub(super) fn create_group(&mut self, given: &Map<String, Value>) -> Result<String, Refusal> {
        strict::fields(given, FIELDS)?;
        let id = self.add(Kind::ServerGroup, &Value::Object(given.clone()));
        id.map_err(|error| Refusal::invalid(error.to_string()))
    }

    pub(super) fn change_group(
        &mut self,
        id: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        strict::fields(given, FIELDS)?;
        self.existing(Kind::ServerGroup, id)?;
        self.rows_mut(Kind::ServerGroup).change(id, |group| {
            for (name, value) in given {
                group[name] = value.clone();
            }
        });
        Ok(())
    }

    /// `add_servers`, `remove_servers` and `move_servers`.
    pub(super) fn change_servers(
        &mut self,
        id: &str,
        action: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let moves = action == "move_servers";
        let destination: &[Field] = &[("servers", Is::Other), ("destination", Is::Text)];
        strict::fields(
            given,
            if moves {
                destination
            } else {
                &destination[..1]
            },
        )?;
        let servers = given.get("servers").unwrap_or(&Value::Null);
        let servers = strict::listed(servers, "server")?;
        let group = self.existing(Kind::ServerGroup, id)?.clone();
        for server in &servers {
            self.existing(Kind::Server, server)?;
            if action != "add_servers" && !has(&group["servers"], server) {
                let error = format!("{server} is not in the server group");
                return Err(Refusal::conflict(error));
            }
        }
        let to = match action {
            "add_servers" => Some(id),
            "move_servers" => given.get("destination").and_then(Value::as_str),
            _ => None,
        };
        if let Some(to) = to {
            self.existing(Kind::ServerGroup, to)?;
            self.rows_mut(Kind::ServerGroup).change(to, |group| {
                let mut all = group["servers"].as_array().cloned().unwrap_or_default();
                all.retain(|one| !servers.iter().any(|server| one == server));
                all.extend(servers.iter().map(|server| json!(server)));
                group["servers"] = json!(all);
            });
        }
        if action != "add_servers" {
            let left = Event::Left(id.to_owned(), servers);
            self.later(self.behaviour.emptying, left);
        }
        Ok(())
    }

    pub(super) fn delete_group(&mut self, id: &str) -> Result<(), Refusal> {
        let group = self.existing(Kind::ServerGroup, id)?;
        let is_empty = group["servers"].as_array().is_none_or(Vec::is_empty);
        if group["default"] == true || !is_empty {
            return Err(Refusal::conflict("The server group is not empty"));
        }
        self.rows_mut(Kind::ServerGroup).remove(id);
        self.rows_mut(Kind::FirewallPolicy).change_where(
            |policy| policy["server_group"] == id,
            |policy| policy["server_group"] = Value::Null,
        );
        self.unmap_all("server_group", id);
        Ok(())
    }
}
