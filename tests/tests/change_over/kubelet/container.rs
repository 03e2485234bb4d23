//! What a kubelet starts for a container of `mooring-central`: the program under the name that the container calls it
//! by, with its arguments, its environment and the files of its volumes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, PodSpec, Secret, Volume};
use kube::api::Api;
use mooring_test_cluster::control_plane::{ControlPlane, free_port};
use mooring_test_support::process::Spec;
use mooring_test_support::program::Program;

/// A container that is about to start.
pub(super) struct Started<'a> {
    pub(super) cp: &'a ControlPlane,
    pub(super) namespace: &'a str,
    pub(super) spec: &'a PodSpec,
    pub(super) container: &'a Container,
    /// The folder that stands for its root.
    pub(super) here: PathBuf,
}

impl Started<'_> {
    /// The program, with these variables for what the container leaves open.
    pub(super) async fn spec(
        &self,
        name: &str,
        log: PathBuf,
        environment: &[(&'static str, String)],
    ) -> Result<Spec> {
        let account = self.spec.service_account_name.as_deref();
        let account = account.unwrap_or_default();
        let kubeconfig = self
            .cp
            .kubeconfig_for_service_account(self.namespace, account, None);
        let kubeconfig = kubeconfig.await?;
        let command = self.container.command.clone().unwrap_or_default();
        let own = self.container.args.clone().unwrap_or_default();
        let words = command.iter().skip(1).cloned().chain(own);
        let mut arguments: Vec<String> = words.collect();
        for (mount, folder) in self.files().await? {
            for argument in &mut arguments {
                *argument = argument.replace(&format!("={mount}/"), &format!("={folder}/"));
            }
        }
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        if arguments[0] != "plan" {
            arguments.push("--bind-address=127.0.0.1".to_owned());
            let port = free_port(Ipv4Addr::LOCALHOST.into())?;
            arguments.push(format!("--secure-port={port}"));
        }
        let program = Spec::new(name, self.program(command.first())?, log).args(arguments);
        let variables = self.variables(environment).await?;
        self.write_shell(&variables, &kubeconfig)?;
        let variables = variables.into_iter();
        Ok(variables.fold(program, |program, (name, value)| program.env(name, value)))
    }

    /// Writes a file that runs a command as one in the container: with its environment and its rights.
    fn write_shell(&self, variables: &[(String, String)], kubeconfig: &Path) -> Result<()> {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let mut text = "#!/usr/bin/env bash\n".to_owned();
        for (name, value) in variables {
            text.push_str(&format!("export {name}={}\n", quoted(value)));
        }
        let kubeconfig = quoted(&kubeconfig.display().to_string());
        text.push_str(&format!("exec \"$@\" --kubeconfig={kubeconfig}\n"));
        let file = self.here.join("shell");
        std::fs::write(&file, text)?;
        Ok(std::fs::set_permissions(
            file,
            PermissionsExt::from_mode(0o755),
        )?)
    }

    /// The image has central under the names of old controllers as well.
    fn program(&self, name: Option<&String>) -> Result<PathBuf> {
        let central = Program::Central.path()?;
        let Some(name) = name.and_then(|name| Path::new(name).file_name()) else {
            return Ok(central);
        };
        let link = self.here.join(name);
        std::os::unix::fs::symlink(central, &link)?;
        Ok(link)
    }

    /// Writes the files of its Secrets and ConfigMaps. Gives where the container expects each folder, and where it is.
    async fn files(&self) -> Result<Vec<(String, String)>> {
        let mut folders = Vec::new();
        for mount in self.container.volume_mounts.iter().flatten() {
            let mut volumes = self.spec.volumes.iter().flatten();
            let volume = volumes.find(|volume| volume.name == mount.name);
            let Some(data) = self.data(volume.context("no such volume")?).await? else {
                continue;
            };
            let folder = self.here.join(mount.mount_path.trim_start_matches('/'));
            std::fs::create_dir_all(&folder)?;
            for (file, text) in data {
                std::fs::write(folder.join(file), text)?;
            }
            folders.push((mount.mount_path.clone(), folder.display().to_string()));
        }
        Ok(folders)
    }

    async fn data(&self, volume: &Volume) -> Result<Option<BTreeMap<String, String>>> {
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            return self.secret(name).await.map(Some);
        }
        let Some(source) = &volume.config_map else {
            return Ok(None);
        };
        let maps = Api::<ConfigMap>::namespaced(self.cp.admin(), self.namespace);
        let map = maps.get(&source.name).await?;
        Ok(Some(map.data.unwrap_or_default()))
    }

    /// What it has in its environment. Where the simulated cloud is comes first.
    async fn variables(
        &self,
        environment: &[(&'static str, String)],
    ) -> Result<Vec<(String, String)>> {
        let own = environment.iter();
        let mut all: Vec<_> = own.map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        for source in self.container.env_from.iter().flatten() {
            let secret = source.secret_ref.as_ref().context("no Secret")?;
            all.extend(self.secret(&secret.name).await?);
        }
        for variable in self.container.env.iter().flatten() {
            all.push((variable.name.clone(), self.value(variable).await?));
        }
        Ok(all)
    }

    async fn value(&self, variable: &EnvVar) -> Result<String> {
        let from = variable.value_from.as_ref();
        let Some(key) = from.and_then(|from| from.secret_key_ref.as_ref()) else {
            let value = variable.value.clone();
            return Ok(value.unwrap_or_else(|| self.namespace.to_owned()));
        };
        let mut all = self.secret(&key.name).await?;
        all.remove(&key.key).context("the Secret has no such key")
    }

    async fn secret(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let secrets = Api::<Secret>::namespaced(self.cp.admin(), self.namespace);
        let data = secrets.get(name).await?.data.unwrap_or_default();
        let texts = data
            .into_iter()
            .map(|(key, value)| Ok((key, String::from_utf8(value.0)?)));
        texts.collect()
    }
}
