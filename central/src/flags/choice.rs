//! Which clouds the cluster has machines of, and how that is known.
//!
//! The old controllers are made for one cloud each and need no `--cloud-provider`. Where their
//! manifests start this program, the name that they call it by or the credentials that they hand to
//! it tell as much.

use super::Provider;

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
    /// At least one, none twice.
    pub providers: Vec<Provider>,
    /// How that is known, for the log.
    pub because: String,
}

/// The old programs, by their files' names.
const PROGRAMS: [(&str, Provider); 3] = [
    ("cloud-provider-phoenixnap", Provider::PhoenixNap),
    ("cloudscale-cloud-controller-manager", Provider::Cloudscale),
    ("linode-cloud-controller-manager", Provider::Linode),
];
/// What such a name may end with: the platform that the program was built for.
const PLATFORM: &str = "-linux-";

/// The variables that make a cloud usable.
const CREDENTIALS: [(&str, Provider); 5] = [
    ("CLOUDSCALE_ACCESS_TOKEN", Provider::Cloudscale),
    ("CLOUDSCALE_ACCESS_TOKEN_FILE", Provider::Cloudscale),
    ("LINODE_API_TOKEN", Provider::Linode),
    ("LINODE_API_TOKEN_FILE", Provider::Linode),
    ("PNAP_CLIENT_ID", Provider::PhoenixNap),
];

/// Goes by the program's name, else by the credentials.
///
/// # Errors
/// What to write, if neither tells, or if there are credentials of several clouds.
pub fn choose(env: ProcessEnv<'_>) -> Result<Choice, String> {
    let name = env.program.rsplit('/').next().unwrap_or_default();
    let named = PROGRAMS.iter().find(|(program, _)| {
        let rest = name.strip_prefix(program);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(PLATFORM))
    });
    if let Some((_, provider)) = named {
        return Ok(Choice {
            providers: vec![*provider],
            because: format!("started as {name}"),
        });
    }
    let is_set = |variable| {
        let value = (env.env)(variable);
        value.is_some_and(|value| !value.trim().is_empty())
    };
    let mut set = CREDENTIALS.iter().filter(|(variable, _)| is_set(variable));
    let Some((variable, provider)) = set.next() else {
        return Err(
            "--cloud-provider is missing, and the environment has no credentials that would tell; \
             write for example --cloud-provider=cloudlycke"
                .to_owned(),
        );
    };
    match set.find(|(_, another)| another != provider) {
        None => Ok(Choice {
            providers: vec![*provider],
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
    fn the_name_tells_and_then_the_credentials() {
        let cloudscale_token = ("CLOUDSCALE_ACCESS_TOKEN", "secret");
        let cloudscale_file = ("CLOUDSCALE_ACCESS_TOKEN_FILE", "/token");
        let linode_token = ("LINODE_API_TOKEN", "secret");
        let linode_file = ("LINODE_API_TOKEN_FILE", "/token");
        let (cloudscale, linode) = (Provider::Cloudscale, Provider::Linode);
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
                "./cloud-provider-phoenixnap",
                &[linode_token],
                Provider::PhoenixNap,
                "started as cloud-provider-phoenixnap",
            ),
            (
                "mooring-central",
                &[("PNAP_CLIENT_ID", "secret")],
                Provider::PhoenixNap,
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
    fn what_is_not_clear_is_asked_for() {
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
            "CLOUDSCALE_ACCESS_TOKEN and LINODE_API_TOKEN_FILE",
            "--cloud-provider=cloudscale,",
            "--cloud-provider=linode or",
            "--cloud-provider=cloudscale,linode",
        ] {
            assert!(told.contains(part), "{part} is missing: {told}");
        }
    }
}
