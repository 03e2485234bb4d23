//! A load balancer that really forwards, and whose monitors really ask.
//!
//! | | |
//! |---|---|
//! | a new connection | goes to the next member of the listener's pool that is enabled and healthy; if there is none, or it does not answer, it ends |
//! | a connection that stands | stays where it is, whatever becomes of the member |
//! | the health monitor | asks each member at its own interval and with its own time limit, enabled or not; a member's state turns after as many answers in a row as the thresholds say, and is shown as `monitor_status` |
//!
//! That a member which is enabled again has to be found healthy first, if it was not, is the worse
//! of what a real one may do. TCP listeners alone; monitors of type `http` and `tcp`.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::kind::Kind;
use super::state::State;
use super::traffic::address;
use super::{Cloudscale, lock};

/// How often it is looked which members there are.
const LOOK: Duration = Duration::from_millis(50);

/// One load balancer at work. It ends when it is dropped.
pub struct Forwarder {
    doors: BTreeMap<String, SocketAddr>,
    _work: JoinSet<()>,
}

impl Forwarder {
    /// Where clients reach a listener: `tcp/80`.
    ///
    /// # Panics
    /// If there was no such listener when it began.
    pub fn door(&self, listener: &str) -> SocketAddr {
        let door = self.doors.get(listener);
        *door.unwrap_or_else(|| panic!("there is no listener {listener}"))
    }
}

impl Cloudscale {
    /// Lets the load balancer of this UUID forward, at addresses of this machine.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn forward(&self, uuid: &str) -> Result<Forwarder> {
        let balancer = Balancer {
            state: self.state.clone(),
            uuid: uuid.to_owned(),
        };
        let mut work = JoinSet::new();
        let mut doors = BTreeMap::new();
        for (place, pool) in balancer.listeners() {
            let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let door = door.context("a port for a listener")?;
            doors.insert(place, door.local_addr()?);
            work.spawn(balancer.clone().accept(door, pool));
        }
        work.spawn(balancer.monitor());
        Ok(Forwarder { doors, _work: work })
    }
}

#[derive(Clone)]
struct Balancer {
    state: Arc<Mutex<State>>,
    uuid: String,
}

/// How one member is asked.
struct Check {
    target: String,
    kind: String,
    request: String,
    codes: Vec<String>,
    delay: Duration,
    limit: Duration,
    up_after: u64,
    down_after: u64,
}

impl Balancer {
    /// The listeners, `tcp/80`, and their pools' UUIDs.
    fn listeners(&self) -> Vec<(String, String)> {
        let state = lock(&self.state);
        let listeners = state.referring(Kind::Listener, "load_balancer", &self.uuid);
        let place = |listener: &Value| {
            let protocol = listener["protocol"].as_str()?;
            let pool = listener["pool"]["uuid"].as_str()?;
            let place = format!("{protocol}/{}", listener["protocol_port"]);
            Some((place, pool.to_owned()))
        };
        listeners.filter_map(place).collect()
    }

    async fn accept(self, door: TcpListener, pool: String) {
        let mut connections = JoinSet::new();
        let mut turn = 0;
        while let Ok((mut client, _)) = door.accept().await {
            while connections.try_join_next().is_some() {}
            let Some(target) = self.next(&pool, &mut turn) else {
                continue;
            };
            connections.spawn(async move {
                if let Ok(mut member) = TcpStream::connect(&target).await {
                    // Whoever ends a connection says so to the other.
                    let _ = copy_bidirectional(&mut client, &mut member).await;
                }
            });
        }
    }

    fn next(&self, pool: &str, turn: &mut usize) -> Option<String> {
        let state = lock(&self.state);
        let members = state
            .referring(Kind::Member, "pool", pool)
            .filter(|member| {
                let is_well = ["up", "no_monitor"].map(Value::from);
                member["enabled"] == true && is_well.contains(&member["monitor_status"])
            });
        let members: Vec<&Value> = members.collect();
        *turn += 1;
        let index = turn.checked_rem(members.len())?;
        members.get(index).map(|member| address(member))
    }

    /// Keeps somebody asking each of the members that there are.
    async fn monitor(self) {
        let mut asked: HashMap<String, AbortHandle> = HashMap::new();
        let mut work = JoinSet::new();
        let mut looks = interval(LOOK);
        loop {
            looks.tick().await;
            let members = self.members();
            asked.retain(|member, asking| {
                let stays = members.contains(member);
                if !stays {
                    asking.abort();
                }
                stays
            });
            for member in members {
                asked
                    .entry(member.clone())
                    .or_insert_with(|| work.spawn(self.clone().ask(member)));
            }
        }
    }

    fn members(&self) -> Vec<String> {
        let state = lock(&self.state);
        let members = state.referring(Kind::Member, "load_balancer", &self.uuid);
        let uuids = members.filter_map(|member| member["uuid"].as_str());
        uuids.map(ToOwned::to_owned).collect()
    }

    /// Asks one member again and again.
    async fn ask(self, member: String) {
        let mut contrary = 0;
        let mut delay = LOOK;
        let mut turns = interval(delay);
        loop {
            turns.tick().await;
            let Some(check) = self.check(&member) else {
                continue;
            };
            if check.delay != delay {
                delay = check.delay;
                turns = interval(delay);
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                turns.tick().await;
            }
            let is_well = timeout(check.limit, check.answers()).await == Ok(true);
            self.note(&member, &check, is_well, &mut contrary);
        }
    }

    fn check(&self, member: &str) -> Option<Check> {
        let state = lock(&self.state);
        let member = state.rows(Kind::Member).get(member)?.value();
        let pool = member["pool"]["uuid"].as_str()?;
        let monitor = state.referring(Kind::HealthMonitor, "pool", pool).next()?;
        let mut asked = member.clone();
        if !member["monitor_port"].is_null() {
            asked["protocol_port"] = member["monitor_port"].clone();
        }
        let text = |name: &str| monitor["http"][name].as_str().unwrap_or_default();
        let host = match monitor["http"]["host"].as_str() {
            Some(host) => format!("Host: {host}\r\n"),
            None => String::new(),
        };
        let codes = monitor["http"]["expected_codes"].as_array();
        let codes = codes.into_iter().flatten().filter_map(Value::as_str);
        let seconds = |name: &str| Duration::from_secs(monitor[name].as_u64().unwrap_or(1));
        Some(Check {
            target: address(&asked),
            kind: monitor["type"].as_str()?.to_owned(),
            request: format!(
                "{} {} HTTP/{}\r\n{host}\r\n",
                text("method"),
                text("url_path"),
                text("version")
            ),
            codes: codes.map(ToOwned::to_owned).collect(),
            delay: seconds("delay_s"),
            limit: seconds("timeout_s"),
            up_after: monitor["up_threshold"].as_u64()?,
            down_after: monitor["down_threshold"].as_u64()?,
        })
    }

    /// `contrary`: how many answers in a row were not what is shown.
    fn note(&self, member: &str, check: &Check, is_well: bool, contrary: &mut u64) {
        let mut state = lock(&self.state);
        let was_well = state.rows(Kind::Member).value(member)["monitor_status"] == "up";
        if is_well == was_well {
            *contrary = 0;
            return;
        }
        *contrary += 1;
        let (needed, status) = match is_well {
            true => (check.up_after, "up"),
            false => (check.down_after, "down"),
        };
        if *contrary >= needed {
            *contrary = 0;
            state.show_health(member, status);
        }
    }
}

impl Check {
    async fn answers(&self) -> bool {
        let Ok(mut member) = TcpStream::connect(&self.target).await else {
            return false;
        };
        if self.kind != "http" {
            return true;
        }
        let mut answer = Vec::new();
        if member.write_all(self.request.as_bytes()).await.is_err()
            || member.read_to_end(&mut answer).await.is_err()
        {
            return false;
        }
        let answer = String::from_utf8_lossy(&answer);
        let code = answer.split(' ').nth(1).unwrap_or_default();
        self.codes.iter().any(|expected| expected == code)
    }
}
