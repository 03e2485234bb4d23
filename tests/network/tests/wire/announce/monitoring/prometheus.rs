//! Debian's Prometheus, with the shipped rules and shorter times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mooring_test_netlab::netlab::get;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use super::PAGED;

/// Where it answers.
const ADDRESS: &str = "127.0.0.1:19090";
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

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
}

impl Prometheus {
    /// Scrapes central and the daemons each second: with the first token, with the second, and with none.
    pub(super) async fn start(cluster: &NetlabCluster, tokens: &[String; 2]) -> Self {
        let folder = cluster.lab.folder().join("prometheus");
        std::fs::create_dir_all(&folder).unwrap();
        let rules =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/alerts.yaml");
        let rules = std::fs::read_to_string(rules).unwrap();
        let soon = rules.lines().map(|line| {
            let is_wait = line.trim_start().starts_with("for: ");
            if is_wait {
                "        for: 1s".to_owned()
            } else {
                line.replace("_timestamp_seconds) > 600", "_timestamp_seconds) > 1")
            }
        });
        let soon: Vec<String> = soon.collect();
        std::fs::write(folder.join("alerts.yaml"), soon.join("\n")).unwrap();
        let nodes = cluster.nodes.iter().map(|node| node.ipv4().to_string());
        let nodes = nodes.map(|address| format!("{address}:10270"));
        let mut targets: Vec<String> = nodes.collect();
        let job = |name: &str, token: Option<&str>, targets: &[String]| {
            let credentials = token.map_or_else(String::new, |token| {
                format!("    authorization: {{credentials: {token}}}\n")
            });
            format!(
                "  - job_name: {name}\n    scheme: https\n    tls_config: {{insecure_skip_verify: true}}\n\
                 {credentials}    static_configs: [{{targets: [{}]}}]\n",
                targets.join(", ")
            )
        };
        // Those who may not read, at the daemons alone: central's own suite has them.
        let others = job("stranger", Some(&tokens[1]), &targets[..1])
            + &job("anonymous", None, &targets[..1]);
        targets.push("127.0.0.1:10258".to_owned());
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
             rule_files: [alerts.yaml]\nscrape_configs:\n{}{others}",
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
        let prometheus = Self { _process: process };
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

    /// Waits until these alerts fire, and no other.
    pub(super) async fn fires(&self, expected: &[&str]) {
        eventually(&format!("{expected:?} fire"), PAGED, async || {
            let data = self.ask("alerts").await?;
            let alerts = data["alerts"].as_array().context("no list")?;
            let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
            let firing: BTreeSet<&str> = firing
                .filter_map(|alert| alert["labels"]["alertname"].as_str())
                .collect();
            let expected: BTreeSet<&str> = expected.iter().copied().collect();
            anyhow::ensure!(firing == expected, "{firing:?} fire: {alerts:?}");
            anyhow::Ok(())
        })
        .await;
    }
}

/// As RFC 3986 has it, for a query.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
