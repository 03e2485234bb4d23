//! Which clouds the cluster has machines of, and how that is known.
//!
//! The old controllers are made for one cloud each and need no `--cloud-provider`. Where their
//! manifests start this program, the name that they call it by or the credentials that they hand to
//! it tell as much.

use crate::cloud_provider::registration::Registration;
use crate::clouds::CLOUDS;

/// What a program is told besides its flags.
#[derive(Clone, Copy)]
pub struct ProcessEnv<'a> {
    /// The name that it was started by, with or without a path.
    pub program: &'a str,
    /// Reads a variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// The clouds, and how they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// None twice. Empty: there is no cloud, and Nodes are left alone.
    pub providers: Vec<&'static Registration>,
    /// How that is known, for the log.
    pub because: String,
}

/// `--cloud-provider=none`.
pub const NO_CLOUD: &str = "none";
/// What such a name may end with: the platform that the program was built for.
const PLATFORM: &str = "-linux-";

/// Goes by the program's name, else by the credentials.
///
/// # Errors
/// What to write, if neither tells, or if there are credentials of several clouds.
pub fn choose(env: ProcessEnv<'_>) -> Result<Choice, String> {
    let name = env.program.rsplit('/').next().unwrap_or_default();
    let named = CLOUDS.iter().find(|cloud| {
        let rest = cloud.program.and_then(|program| name.strip_prefix(program));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(PLATFORM))
    });
    if let Some(cloud) = named {
        return Ok(Choice {
            providers: vec![cloud],
            because: format!("started as {name}"),
        });
    }
    let is_set = |variable| {
        let value = (env.env)(variable);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    let credentials = CLOUDS.iter().flat_map(|cloud| {
        let variables = cloud.credentials.iter();
        variables.map(move |variable| (*variable, *cloud))
    });
    let mut set = credentials.filter(|(variable, _)| is_set(variable));
    let Some((variable, provider)) = set.next() else {
        let names: Vec<&str> = CLOUDS.iter().map(|cloud| cloud.name).collect();
        return Err(format!(
            "--cloud-provider is missing, and the environment has no credentials that would tell; \
             write --cloud-provider with one of {}, or {NO_CLOUD} for addresses of L2Networks alone",
            names.join(", ")
        ));
    };
    match set.find(|(_, another)| *another != provider) {
        None => Ok(Choice {
            providers: vec![provider],
            because: format!("{variable} is set"),
        }),
        Some((besides, another)) => Err(format!(
            "--cloud-provider is missing, and the environment has credentials of two clouds, \
             {variable} and {besides}; write --cloud-provider={provider}, --cloud-provider={another} or \
             --cloud-provider={provider},{another}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_with(program: &str, set: &[(&str, &str)]) -> Result<Choice, String> {
        let env = |variable: &str| {
            let found = set.iter().find(|(name, _)| *name == variable);
            found.map(|(_, value)| (*value).to_owned())
        };
        choose(ProcessEnv { program, env: &env })
    }

    #[test]
    fn program_name_then_credentials_choose_cloud() {
        let cloudscale_token = ("CLOUDSCALE_ACCESS_TOKEN", "secret");
        let cloudscale_file = ("CLOUDSCALE_ACCESS_TOKEN_FILE", "/token");
        let linode_token = ("LINODE_API_TOKEN", "secret");
        let linode_file = ("LINODE_API_TOKEN_FILE", "/token");
        let cloud = |name| crate::clouds::named(name).unwrap();
        let (cloudscale, linode) = (cloud("cloudscale"), cloud("linode"));
        for (program, set, provider, because) in [
            (
                "cloudscale-cloud-controller-manager",
                &[][..],
                cloudscale,
                "started as cloudscale-",
            ),
            (
                "/usr/bin/cloudscale-cloud-controller-manager",
                &[linode_token],
                cloudscale,
                "started as cloudscale-",
            ),
            (
                "/linode-cloud-controller-manager-linux-amd64",
                &[],
                linode,
                "started as linode-",
            ),
            (
                "linode-cloud-controller-manager",
                &[cloudscale_token],
                linode,
                "started as linode-",
            ),
            (
                "/usr/bin/mooring-central",
                &[cloudscale_token],
                cloudscale,
                "CLOUDSCALE_ACCESS_TOKEN is set",
            ),
            (
                "mooring-central",
                &[cloudscale_file, cloudscale_token],
                cloudscale,
                "CLOUDSCALE_ACCESS_TOKEN is set",
            ),
            (
                "mooring-central",
                &[cloudscale_file],
                cloudscale,
                "CLOUDSCALE_ACCESS_TOKEN_FILE is set",
            ),
            ("", &[linode_token], linode, "LINODE_API_TOKEN is set"),
            (
                "mooring-central",
                &[linode_file],
                linode,
                "LINODE_API_TOKEN_FILE is set",
            ),
            (
                "mooring-central",
                &[("LINODE_REGION", "eu-central")],
                linode,
                "LINODE_REGION is set",
            ),
            (
                "./cloud-provider-phoenixnap",
                &[linode_token],
                cloud("phoenixnap"),
                "started as cloud-provider-phoenixnap",
            ),
            (
                "mooring-central",
                &[("PNAP_CLIENT_ID", "secret")],
                cloud("phoenixnap"),
                "PNAP_CLIENT_ID is set",
            ),
            (
                "mooring-central",
                &[linode_token, ("CLOUDSCALE_ACCESS_TOKEN", " ")],
                linode,
                "LINODE_API_TOKEN is set",
            ),
        ] {
            let choice = choose_with(program, set).unwrap();
            assert_eq!(choice.providers, [provider], "{program} {set:?}");
            assert!(choice.because.starts_with(because), "{choice:?}");
            assert!(!choice.because.contains("secret"), "{choice:?}");
        }
    }

    #[test]
    fn ambiguous_choice_asks_for_flag() {
        let none = choose_with("/usr/bin/mooring-central", &[]).unwrap_err();
        assert!(none.contains("--cloud-provider is missing"), "{none}");
        let other = choose_with("cloudscale-cloud-controller-manager-tool", &[]);
        assert!(other.is_err(), "{other:?}");
        let both = [
            ("LINODE_API_TOKEN_FILE", "/f"),
            ("CLOUDSCALE_ACCESS_TOKEN", "t"),
        ];
        let told = choose_with("mooring-central", &both).unwrap_err();
        for part in [
            "LINODE_API_TOKEN_FILE and CLOUDSCALE_ACCESS_TOKEN",
            "--cloud-provider=linode,",
            "--cloud-provider=cloudscale or",
            "--cloud-provider=linode,cloudscale",
        ] {
            assert!(told.contains(part), "{part} is missing: {told}");
        }
    }
}
