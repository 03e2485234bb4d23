//! Debian's Prometheus, with the shipped rules and shorter times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use mooring_test_netlab::netlab::get;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use super::{PAGED, control_plane};

/// Where it answers.
const ADDRESS: &str = "127.0.0.1:19090";
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Times of the shipped rules that are minutes, and what they are here. `for` is a second everywhere.
const SHORTER: [(&str, &str); 5] = [
    ("_timestamp_seconds) > 600", "_timestamp_seconds) > 1"),
    ("[5m]", "[8s]"),
    ("[10m]", "[8s]"),
    ("offset 10m", "offset 8s"),
    (
        "_processor_seconds * on (job, instance) group_left () max by (job, instance) (mooring_build_info{program=\"mooring-central\"}) > 150",
        "_processor_seconds * on (job, instance) group_left () max by (job, instance) (mooring_build_info{program=\"mooring-central\"}) > 3",
    ),
];

/// One series of an answer.
pub(super) struct Series {
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// When, in seconds since 1970, and how much.
    pub(super) points: Vec<(f64, f64)>,
}

/// A running Prometheus.
pub(super) struct Prometheus {
    _process: Process,
    /// The names of the alerts that were expected and fired.
    seen: Mutex<BTreeSet<String>>,
}

/// The shipped rules.
fn shipped() -> String {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/alerts.yaml");
    std::fs::read_to_string(rules).unwrap()
}

/// The names of all shipped alerts.
pub(super) fn alerts() -> BTreeSet<String> {
    let rules = shipped();
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

/// The shipped rules, where seconds stand for minutes.
fn with_shorter_times() -> String {
    let mut rules = shipped();
    for (long, short) in SHORTER {
        assert!(rules.contains(long), "no rule says {long}");
        rules = rules.replace(long, short);
    }
    let lines = rules.lines().map(|line| {
        let is_wait = line.trim_start().starts_with("for: ");
        if is_wait { "        for: 1s" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl Prometheus {
    /// Scrapes central and the daemons each second: with the first token, with the second, and with none.
    pub(super) async fn start(cluster: &NetlabCluster, tokens: &[String; 2]) -> Self {
        let folder = cluster.lab.folder().join("prometheus");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("alerts.yaml"), with_shorter_times()).unwrap();
        let target = |name: &str, address: &str| {
            format!("{{targets: ['{address}'], labels: {{instance: {name}}}}}")
        };
        let nodes = cluster.nodes.iter();
        let nodes = nodes.map(|node| target(node.name(), &format!("{}:10270", node.ipv4())));
        let mut targets: Vec<String> = nodes.collect();
        let job = |name: &str, token: Option<&str>, targets: &[String]| {
            let credentials = token.map_or_else(String::new, |token| {
                format!("    authorization: {{credentials: {token}}}\n")
            });
            format!(
                "  - job_name: {name}\n    scheme: https\n    tls_config: {{insecure_skip_verify: true}}\n\
                 {credentials}    static_configs: [{}]\n",
                targets.join(", ")
            )
        };
        // Those who may not read, at the daemons alone: central's own suite has them.
        let others = job("stranger", Some(&tokens[1]), &targets[..1])
            + &job("anonymous", None, &targets[..1]);
        targets.push(target("central", "127.0.0.1:10258"));
        // The first node's, by HTTP and without a token.
        let own = format!("{}:{}", cluster.nodes[0].ipv4(), control_plane::PORT);
        let own = target("control-plane", &own);
        let own = format!("  - job_name: control-plane\n    static_configs: [{own}]\n");
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [alerts.yaml]\nscrape_configs:\n{}{others}{own}",
            job("mooring", Some(&tokens[0]), &targets)
        );
        std::fs::write(folder.join("prometheus.yaml"), config).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let spec = Spec::new("prometheus", "prometheus", folder.join("log")).args([
            format!("--config.file={}", path("prometheus.yaml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={ADDRESS}"),
            "--log.level=warn".to_owned(),
        ]);
        let process =
            Process::start(&spec).expect("the package prometheus: bash tests/install-packages.sh");
        let prometheus = Self {
            _process: process,
            seen: Mutex::default(),
        };
        eventually("Prometheus answers", PAGED, async || {
            prometheus.query("1").await.map(drop)
        })
        .await;
        prometheus
    }

    async fn ask(&self, path: &str) -> Result<Value> {
        let url = format!("http://{ADDRESS}/api/v1/{path}");
        let answer = tokio::task::spawn_blocking(move || get(&url, LIMIT)).await??;
        let value: Value = serde_json::from_str(&answer.body)
            .with_context(|| format!("{}: {}", answer.status, answer.body))?;
        anyhow::ensure!(value["status"] == "success", "{path}: {value}");
        Ok(value["data"].clone())
    }

    /// The values that a query gives now.
    pub(super) async fn query(&self, query: &str) -> Result<Vec<f64>> {
        let data = self.ask(&format!("query?query={}", encoded(query))).await?;
        if data["resultType"] == "scalar" {
            return Ok(vec![1.0]);
        }
        let series = data["result"].as_array().context("no list")?;
        let value = |one: &Value| one["value"][1].as_str()?.parse().ok();
        Ok(series.iter().filter_map(value).collect())
    }

    /// The series that a query gives from then until then, in seconds since 1970, in so many steps.
    pub(super) async fn range(
        &self,
        query: &str,
        [from, until]: [f64; 2],
        steps: u32,
    ) -> Result<Vec<Series>> {
        let step = (until - from) / f64::from(steps);
        let query = encoded(query);
        let path = format!("query_range?query={query}&start={from}&end={until}&step={step}");
        let data = self.ask(&path).await?;
        let series = data["result"].as_array().context("no list")?;
        let number = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        let read = series.iter().map(|one| {
            let labels = serde_json::from_value(one["metric"].clone())?;
            let points = one["values"].as_array().into_iter().flatten();
            let points = points.filter_map(|point| Some((number(&point[0])?, number(&point[1])?)));
            Ok(Series {
                labels,
                points: points.filter(|(_, value)| value.is_finite()).collect(),
            })
        });
        read.collect()
    }

    /// What it scrapes, and with what success.
    pub(super) async fn targets(&self) -> Result<Vec<Value>> {
        let data = self.ask("targets?state=active").await?;
        let targets = data["activeTargets"].as_array().context("no list")?;
        anyhow::ensure!(!targets.is_empty(), "there is none");
        Ok(targets.clone())
    }

    /// The names of all metrics that Mooring has given it.
    pub(super) async fn names(&self) -> Result<BTreeSet<String>> {
        let data = self.ask("label/__name__/values").await?;
        let names = data.as_array().context("no list")?.iter();
        let names = names.filter_map(|name| name.as_str());
        // These two kinds it makes itself.
        let given = names.filter(|name| {
            *name != "up" && !name.starts_with("scrape_") && !name.starts_with("ALERTS")
        });
        Ok(given.map(str::to_owned).collect())
    }

    /// The alerts that fire: their names, and what their labels say of where.
    async fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.ask("alerts").await?;
        let alerts = data["alerts"].as_array().context("no list")?;
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        let shown = firing.map(|alert| {
            let labels: BTreeMap<&str, &str> = labels(&alert["labels"]);
            let name = labels.get("alertname").copied().unwrap_or_default();
            let others = ["alertname", "severity", "job"];
            let place = labels.iter().filter(|(key, _)| !others.contains(key));
            let place = place.map(|(_, value)| *value);
            std::iter::once(name)
                .chain(place)
                .collect::<Vec<_>>()
                .join(" ")
        });
        Ok(shown.collect())
    }

    /// Waits until these alerts fire, and no other. Each is its name and the values of its labels, in the order of
    /// the labels.
    pub(super) async fn fires(&self, expected: &[&str]) {
        eventually(&format!("{expected:?} fire"), PAGED, async || {
            let firing = self.firing().await?;
            let expected = expected.iter().map(|alert| (*alert).to_owned()).collect();
            anyhow::ensure!(firing == expected, "{firing:?} fire");
            anyhow::Ok(())
        })
        .await;
        self.has_seen(expected);
    }

    /// Waits until each of these alerts has fired, if only one after the other, and no other fires but for those
    /// that may fire meanwhile.
    pub(super) async fn each_fires(&self, expected: &[&str], meanwhile: &[&str]) {
        let all: BTreeSet<String> = expected.iter().copied().map(str::to_owned).collect();
        let mut fired = BTreeSet::new();
        eventually(&format!("each of {expected:?} fires"), PAGED, async || {
            let firing = self.firing().await?;
            fired.extend(firing.clone());
            let missing: Vec<_> = all.difference(&fired).collect();
            let mut others: Vec<_> = firing.difference(&all).collect();
            others.retain(|alert| !meanwhile.contains(&alert.as_str()));
            let is_all = missing.is_empty() && others.is_empty();
            anyhow::ensure!(is_all, "{missing:?} do not fire, {others:?} do");
            anyhow::Ok(())
        })
        .await;
        self.has_seen(expected);
    }

    fn has_seen(&self, alerts: &[&str]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let names = alerts.iter().filter_map(|alert| alert.split(' ').next());
        seen.extend(names.map(str::to_owned));
    }

    /// The names of the alerts that were expected and have fired until now.
    pub(super) fn seen(&self) -> BTreeSet<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

fn labels(value: &Value) -> BTreeMap<&str, &str> {
    let all = value.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

/// As RFC 3986 has it, for a query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
