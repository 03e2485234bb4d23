use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use mooring_common::machines::{Identity, MachinesFile, Resolution};
use mooring_common::names::reasons;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::NodeFacts;
use tempfile::TempDir;

use super::dmi::{DmiSource, LocalMachine, read_host};
use super::{
    Completeness, HostPaths, MetadataError, MetadataSource, Options, SourceAnswer, SourceChoice,
    select,
};

const UUID: &str = "4c4c4544-0042-4810-8052-b4c04f4a3132";
const MACHINE_ID: &str = "b08dfa6083e7567a1921a715000001fb";

/// A made-up host.
struct Host {
    dir: TempDir,
}

impl Host {
    /// A host with an empty `/sys`.
    fn new() -> Self {
        let host = Self {
            dir: TempDir::new().unwrap(),
        };
        fs::create_dir_all(host.path("sys/class/net")).unwrap();
        host
    }

    /// A usual server.
    fn server() -> Self {
        Self::new()
            .file(
                "sys/class/dmi/id/product_uuid",
                "4C4C4544-0042-4810-8052-B4C04F4A3132\n",
            )
            .file("sys/class/dmi/id/sys_vendor", "Dell Inc.\n")
            .file("sys/class/dmi/id/product_name", "PowerEdge R640\n")
            .file("sys/class/dmi/id/chassis_asset_tag", "RACK-7\n")
            .file("etc/machine-id", format!("{MACHINE_ID}\n"))
            .card("eno2", "08:00:27:00:00:02")
            .card("eno1", "08:00:27:00:00:01")
            .file("sys/class/net/lo/address", "00:00:00:00:00:00\n")
            .file("sys/class/net/cni0/address", "8a:11:22:33:44:55\n")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn card(self, name: &str, mac: &str) -> Self {
        let host = self.file(&format!("sys/class/net/{name}/address"), format!("{mac}\n"));
        symlink("../..", host.path(&format!("sys/class/net/{name}/device"))).unwrap();
        host
    }

    fn paths(&self) -> HostPaths {
        HostPaths {
            sys: self.path("sys"),
            etc: self.path("etc"),
            proc: self.path("proc"),
            run: self.path("run"),
        }
    }

    async fn read(&self) -> LocalMachine {
        LocalMachine::read(&self.paths()).await.unwrap()
    }

    async fn machines(&self, nodes: &str) -> Arc<MachinesFile> {
        let path = self.path("machines.yaml");
        fs::write(&path, format!("version: 1\nnodes:\n{nodes}")).unwrap();
        MachinesFile::open(Some(path)).await.unwrap()
    }

    async fn ask(&self, nodes: &str, node: &Identity) -> Result<SourceAnswer, MetadataError> {
        let machines = self.machines(nodes).await;
        let options = Options {
            paths: self.paths(),
            ..Options::default()
        };
        let source = select(options, Some(machines)).unwrap().source;
        assert_eq!(source.name(), "file");
        source.facts(node).await
    }
}

fn node(name: &str) -> Identity {
    Identity {
        name: name.to_owned(),
        addresses: vec![NodeAddress::new(AddressType::InternalIP, "192.0.2.1")],
        ..Identity::default()
    }
}

#[tokio::test]
async fn server_shows_identity() {
    let expected = LocalMachine {
        identity: Identity {
            system_uuid: Some(UUID.parse().unwrap()),
            machine_id: Some(MACHINE_ID.parse().unwrap()),
            macs: ["08:00:27:00:00:01", "08:00:27:00:00:02"]
                .map(|m| m.parse().unwrap())
                .into(),
            asset_tag: Some("RACK-7".to_owned()),
            vendor: Some("Dell Inc.".to_owned()),
            ..Identity::default()
        },
        product: Some("PowerEdge R640".to_owned()),
    };
    assert_eq!(Host::server().read().await, expected);
}

#[tokio::test]
async fn lists_cards_in_stable_order() {
    let mut host = Host::new();
    let all = ["6", "2", "5", "1", "4", "3"].map(|n| format!("08:00:27:00:00:0{n}"));
    for (i, mac) in all.iter().enumerate() {
        host = host.card(&format!("eth{i}"), mac);
    }
    // A bond and its parts share one address.
    host = host.card("eth9", "08:00:27:00:00:06");
    let macs: Vec<_> = host
        .read()
        .await
        .identity
        .macs
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut sorted = all.to_vec();
    sorted.sort();
    assert_eq!(macs, sorted);
}

#[tokio::test]
async fn ignores_placeholders() {
    let host = Host::new()
        .file(
            "sys/class/dmi/id/product_uuid",
            "00000000-0000-0000-0000-000000000000\n",
        )
        .file("sys/class/dmi/id/sys_vendor", "To Be Filled By O.E.M.\n")
        .file("sys/class/dmi/id/product_name", "None\n")
        .file("etc/machine-id", "uninitialized\n")
        .card("eth0", "00:00:00:00:00:00");
    let expected = LocalMachine {
        identity: Identity {
            asset_tag: Some(String::new()),
            vendor: Some(String::new()),
            ..Identity::default()
        },
        product: None,
    };
    assert_eq!(host.read().await, expected);
}

#[tokio::test]
async fn reads_device_tree_without_dmi() {
    let host = Host::new()
        .file(
            "proc/device-tree/model",
            b"Raspberry Pi 4 Model B Rev 1.4\0",
        )
        .file("proc/device-tree/serial-number", b"10000000ABCDEF01\0");
    let local = host.read().await;
    assert_eq!(
        local.product.as_deref(),
        Some("Raspberry Pi 4 Model B Rev 1.4")
    );
    assert_eq!(
        local.identity.system_uuid.unwrap().as_str(),
        "10000000abcdef01"
    );
    assert_eq!(local.identity.vendor.as_deref(), Some(""));
}

#[tokio::test]
async fn claims_nothing_without_host_files() {
    let dir = TempDir::new().unwrap();
    let nowhere = dir.path().join("absent");
    let paths = HostPaths {
        sys: nowhere.clone(),
        etc: nowhere.clone(),
        proc: nowhere.clone(),
        run: nowhere,
    };
    assert_eq!(
        LocalMachine::read(&paths).await.unwrap(),
        LocalMachine::default()
    );
}

#[test]
fn unreadable_is_unknown() {
    let host = Host::server();
    let forbid = |path: &str, mode| {
        fs::set_permissions(host.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    forbid("", 0o755);
    forbid("sys/class/dmi/id/product_uuid", 0o400);
    forbid("sys/class/dmi/id/chassis_asset_tag", 0);
    let paths = host.paths();
    let read = move || {
        // Only this thread becomes nobody, and only towards the file system.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        read_host(&paths)
    };
    let identity = std::thread::spawn(read).join().unwrap().unwrap().identity;
    let expected_uuid = (!nix::unistd::geteuid().is_root()).then(|| UUID.parse().unwrap());
    assert_eq!(
        (identity.system_uuid, identity.asset_tag),
        (expected_uuid, None)
    );
    assert_eq!(identity.vendor.as_deref(), Some("Dell Inc."));
}

#[tokio::test]
async fn retries_file_that_fails() {
    let host = Host::server();
    fs::remove_file(host.path("etc/machine-id")).unwrap();
    fs::create_dir(host.path("etc/machine-id")).unwrap();
    let error = LocalMachine::read(&host.paths()).await.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("machine-id"),
        "{error}"
    );
}

#[tokio::test]
async fn firmware_alone_is_not_enough() {
    let host = Host::server();
    let source = DmiSource::new(host.paths());
    let answer = source.facts(&node("n")).await.unwrap();
    let expected = SourceAnswer {
        facts: NodeFacts {
            instance_type: Some("PowerEdge-R640".to_owned()),
            ..NodeFacts::default()
        },
        completeness: Completeness::Partial {
            missing: vec!["a provider ID", "an IP address"],
        },
    };
    assert_eq!((source.name(), answer), ("dmi", expected));
}

#[tokio::test]
async fn looks_machine_up_in_file() {
    let host = Host::server();
    for key in [
        format!("systemUUID: {UUID}"),
        format!("machineID: {MACHINE_ID}"),
        "mac: '08:00:27:00:00:02'".to_owned(),
        "name: n".to_owned(),
    ] {
        let entries =
            format!("  - {{match: {{{key}}}, id: i-1}}\n  - {{match: {{name: other}}}}\n");
        let answer = host.ask(&entries, &node("n")).await.unwrap();
        assert_eq!(answer.completeness, Completeness::Whole, "{key}");
        assert_eq!(
            answer.facts.provider_id.unwrap().to_string(),
            "cloudlycke://i-1",
            "{key}"
        );
        assert_eq!(answer.facts.addresses, node("n").addresses, "{key}");
    }
}

#[tokio::test]
async fn answer_without_address_is_partial() {
    let mut bare = node("n");
    bare.addresses = vec![NodeAddress::new(AddressType::Hostname, "n")];
    let answer = Host::new()
        .ask("  - {match: {name: n}}\n", &bare)
        .await
        .unwrap();
    let missing = vec!["an IP address"];
    assert_eq!(answer.completeness, Completeness::Partial { missing });
}

#[tokio::test]
async fn unresolved_machine_says_why() {
    let host = Host::server();
    let error = host
        .ask("  - {match: {name: other}}\n", &node("n"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, MetadataError::Unresolved(r) if **r == Resolution::Unknown),
        "{error}"
    );
    assert!(
        !error.is_retryable() && error.to_string().contains("Add one under nodes"),
        "{error}"
    );
    assert_eq!(error.reason(), reasons::INITIALIZATION_REFUSED);
    let both = format!("  - {{match: {{name: n}}}}\n  - {{match: {{systemUUID: {UUID}}}}}\n");
    let error = host.ask(&both, &node("n")).await.unwrap_err();
    assert_eq!(error.reason(), reasons::AMBIGUOUS_INSTANCE);
    let mut foreign = node("n");
    foreign.provider_id = Some("aws://i-1".to_owned());
    let error = host.ask(&both, &foreign).await.unwrap_err();
    assert_eq!(error.reason(), reasons::UNKNOWN_PROVIDER_ID);
}

#[tokio::test]
async fn initialises_stopped_but_not_terminated_machine() {
    let host = Host::server();
    let error = host
        .ask("  - {match: {name: n}, state: terminated}\n", &node("n"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, MetadataError::Terminated { entry } if entry == "n"),
        "{error}"
    );
    let answer = host
        .ask("  - {match: {name: n}, state: shutdown}\n", &node("n"))
        .await;
    assert_eq!(answer.unwrap().completeness, Completeness::Whole);
}

#[tokio::test]
async fn selects_source() {
    let machines = || async { MachinesFile::open(None).await.unwrap() };
    let of = |choice| Options {
        choice,
        ..Options::default()
    };
    for (choice, file, expected) in [
        ("auto", true, "file"),
        ("auto", false, "auto"),
        ("file", true, "file"),
        ("linode", true, "linode"),
        ("cloudscale", false, "cloudscale"),
        ("brightbox", false, "brightbox"),
        ("cloud-init", false, "cloud-init"),
        ("dmi", true, "dmi"),
        ("dmi", false, "dmi"),
    ] {
        let machines = if file { Some(machines().await) } else { None };
        let parsed: SourceChoice = choice.parse().unwrap();
        assert_eq!(parsed.to_string(), choice);
        let selected = select(of(parsed), machines).unwrap();
        assert_eq!(selected.source.name(), expected, "{choice}");
        assert_eq!(selected.search.is_some(), expected == "auto", "{choice}");
    }
    let error = select(of(SourceChoice::File), None).unwrap_err();
    assert!(matches!(error, MetadataError::NoMachinesFile));
    let error = "cloud".parse::<SourceChoice>().unwrap_err().to_string();
    assert!(error.contains("\"cloud\"") && error.contains("cloud-init or dmi"));
}
