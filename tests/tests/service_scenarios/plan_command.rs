//! `mooring-central plan`, run for a cluster.

use mooring_test_support::program::Program;
use serde_json::Value;

use super::cloud::SuiteCloud;
use super::cluster::{CloudCluster, LoadBalancerCloud as _};

/// What the command has said.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its exit code.
    pub(crate) code: i32,
    /// What it has printed.
    pub(crate) text: String,
    /// What it has complained about.
    pub(crate) complaint: String,
}

impl Answer {
    /// What is planned for this Service.
    pub(crate) fn of(&self, name: &str) -> Value {
        let all: Vec<Value> = serde_json::from_str(&self.text).expect("a list");
        let mut all = all.into_iter();
        let is_it = |planned: &Value| {
            let key = planned["service"].as_str().unwrap_or_default();
            key.rsplit('/').next() == Some(name)
        };
        all.find(is_it).expect("a plan for it")
    }

    /// How many steps are planned for this Service.
    pub(crate) fn steps(&self, name: &str) -> usize {
        let plan = self.of(name);
        plan["steps"].as_array().map_or(0, Vec::len)
    }
}

impl CloudCluster {
    /// Runs `mooring-central plan` with these arguments, separated by spaces.
    pub(crate) async fn plan(&self, arguments: &str) -> Answer {
        let kubeconfig = self.admin_kubeconfig();
        let mut command = std::process::Command::new(Program::Central.path().unwrap());
        command
            .arg("plan")
            .args(arguments.split(' '))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--cloud-provider={}", SuiteCloud::CLOUD.name()))
            .envs(self.flags().variables());
        let run = tokio::task::spawn_blocking(move || command.output());
        let output = run.await.unwrap().unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            complaint: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// How the command is told of a Service.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }
}
