//! `mooring-node control-plane-manifest`: prints the static Pod, or the control plane file.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use mooring_common::control_plane::parse;
use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Integer, List, Text};
use mooring_common::flags::{Flag, FlagFaults, FlagTable, Reader, Values, flag};
use mooring_common::program::{self, Threads};
use mooring_common::telemetry::LogFormat;
use mooring_common::yaml::Fault;

/// Every flag of `mooring-node control-plane-manifest`.
pub const TABLE: FlagTable = FlagTable {
    program: "mooring-node control-plane-manifest",
    about: "Prints the static Pod that announces the address of the control plane, or the file that it goes by.",
    flags: FLAGS,
    operand: "",
};

const MANIFEST: &str = "Manifest";

/// One flag a line: a table to be read.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag(MANIFEST, "print", Text, "pod", Act, "What to print: pod, for the kubelet's folder of static Pods; or file, for /etc/mooring/control-plane.yaml, by which the Pod goes."),
    flag(MANIFEST, "address", List, "", Act, "The address of the control plane; of each family at most one."),
    flag(MANIFEST, "interface", Text, "", Act, "The interface that the address is announced on."),
    flag(MANIFEST, "member", List, "", Act, "The control-plane nodes, each as name=address, like cp1=192.0.2.11."),
    flag(MANIFEST, "witness", Text, "", Act, "A worker that votes and never has the address, as name=address; for two control-plane nodes."),
    flag(MANIFEST, "gateway", List, "", Act, "The routers of the segment; of each family at most one."),
    flag(MANIFEST, "port", Integer, "6443", Act, "The port of the API servers."),
    flag(MANIFEST, "revision", Integer, "1", Act, "The revision of the file: 1 for the first nodes, and one more with each change of members."),
    flag(MANIFEST, "key-file", Text, "/etc/mooring/heartbeat.key", Act, "The file with the secret that heartbeats are signed with, below /etc/mooring."),
    flag(MANIFEST, "image", Text, IMAGE, Act, "The image of mooring-node."),
];

/// The image, unless another is named.
const IMAGE: &str = concat!("mooring-node:", env!("CARGO_PKG_VERSION"));

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Print {
    #[default]
    Pod,
    File,
}

impl std::str::FromStr for Print {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "pod" => Ok(Self::Pod),
            "file" => Ok(Self::File),
            _ => Err(()),
        }
    }
}

/// The command line, read whole.
#[derive(Clone, Debug)]
struct ManifestFlags {
    print: Print,
    image: String,
    /// The control plane file, as text.
    file: String,
}

/// The whole command, from what stands behind `control-plane-manifest` to the exit code: 0, or 2 for a command
/// line that cannot be read.
#[must_use]
pub fn main(arguments: Vec<String>) -> ExitCode {
    program::main(
        &TABLE,
        arguments,
        ManifestFlags::read,
        |_| (0, LogFormat::Text),
        Threads::One,
        |flags| async move {
            use std::io::Write as _;
            let text = match flags.print {
                Print::Pod => pod(&flags.image),
                Print::File => flags.file,
            };
            let written = std::io::stdout().write_all(text.as_bytes());
            written.map_err(|error| format!("cannot print: {error}"))
        },
    )
}

impl ManifestFlags {
    fn read(values: &Values) -> Result<Self, FlagFaults> {
        let mut reader = Reader::new(&TABLE, values);
        let print = reader.parsed("print", "write pod or file");
        let listed = reader.list("member");
        let has_members = !listed.is_empty();
        let mut members = Vec::new();
        for text in listed {
            members.extend(member(&mut reader, "member", &text));
        }
        let witness = reader
            .text("witness")
            .and_then(|text| member(&mut reader, "witness", &text));
        let (addresses, interface) = (reader.list("address"), reader.text("interface"));
        let (has_address, has_interface) = (!addresses.is_empty(), interface.is_some());
        let key_file = reader.text("key-file").unwrap_or_default();
        let file = file(&FileValues {
            revision: reader.parsed("revision", "write a whole number"),
            addresses,
            port: reader.parsed("port", "write a port number, from 1 to 65535"),
            interface: interface.unwrap_or_default(),
            members,
            witness,
            gateways: reader.list("gateway"),
            key_file: key_file.clone(),
        });
        // The Pod goes by the file on its node, and needs nothing of it here; what is given all the same must be right. The
        // file's own parser knows what is wrong with it, and says it in the file's words.
        if let Err(invalid) = parse(&file) {
            let is_pod_alone = print == Print::Pod && !has_members;
            let is_missing = |fault: &Fault| match fault.place.as_str() {
                "members" => true,
                "addresses" => !has_address,
                "interface" => !has_interface,
                _ => false,
            };
            let faults = invalid.faults.iter();
            for fault in faults.filter(|fault| !(is_pod_alone && is_missing(fault))) {
                reader.other_fault(fault.to_string());
            }
        }
        if !Path::new(&key_file).starts_with("/etc/mooring") {
            reader.other_fault(
                "--key-file must be below /etc/mooring, which is what the Pod sees of the host",
            );
        }
        let flags = Self {
            print,
            image: reader.text("image").unwrap_or_default(),
            file,
        };
        reader.finish().map(|()| flags)
    }
}

/// `name=address`.
fn member(reader: &mut Reader<'_>, flag: &str, text: &str) -> Option<(String, IpAddr)> {
    let read = text.split_once('=');
    let read = read.and_then(|(name, address)| Some((name.to_owned(), address.parse().ok()?)));
    if read.is_none() {
        reader.fault(
            flag,
            text,
            "write the Node's name and its address, like cp1=192.0.2.11",
        );
    }
    read
}

struct FileValues {
    revision: u64,
    addresses: Vec<String>,
    port: u16,
    interface: String,
    members: Vec<(String, IpAddr)>,
    witness: Option<(String, IpAddr)>,
    gateways: Vec<String>,
    key_file: String,
}

/// The control plane file, as text. Texts are in quotes: JSON's are YAML's.
fn file(values: &FileValues) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let list = |texts: &[String]| {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        format!("[{}]", texts.join(", "))
    };
    let member = |(name, address): &(String, IpAddr)| {
        let address = quoted(&address.to_string());
        format!("{{name: {}, address: {address}}}", quoted(name))
    };
    let mut text = String::new();
    let mut line = |line: String| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{line}");
    };
    line("# The address of the control plane: the same file on each of its nodes.".to_owned());
    line("version: 1".to_owned());
    line(
        "# One more with each change of members or witness, and one name with each revision."
            .to_owned(),
    );
    line(format!("revision: {}", values.revision));
    line(format!("addresses: {}", list(&values.addresses)));
    line(format!("port: {}", values.port));
    line(format!("interface: {}", quoted(&values.interface)));
    if values.members.is_empty() {
        line("members: []".to_owned());
    } else {
        line("members:".to_owned());
        for one in &values.members {
            line(format!("  - {}", member(one)));
        }
    }
    if let Some(witness) = &values.witness {
        line(format!("witness: {}", member(witness)));
    }
    line(format!("keyFile: {}", quoted(&values.key_file)));
    if !values.gateways.is_empty() {
        line(format!("gateways: {}", list(&values.gateways)));
    }
    text
}

/// The static Pod.
fn pod(image: &str) -> String {
    let image = serde_json::Value::from(image).to_string();
    POD.replace("IMAGE", &image)
}

const POD: &str = r"# The address of the control plane, by Mooring. It goes by /etc/mooring/control-plane.yaml.
apiVersion: v1
kind: Pod
metadata:
  name: mooring-control-plane
  namespace: kube-system
  labels:
    app.kubernetes.io/name: mooring-control-plane
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  # Time to hand the address over to another node.
  terminationGracePeriodSeconds: 15
  containers:
    - name: mooring-control-plane
      image: IMAGE
      args: [control-plane, --host-proc-sys-net=/host/proc/sys/net]
      env:
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
      resources:
        requests: {cpu: 20m, memory: 32Mi}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL], add: [NET_ADMIN, NET_RAW, SYS_NICE]}
        seccompProfile: {type: RuntimeDefault}
      volumeMounts:
        - {name: etc, mountPath: /etc/mooring, readOnly: true}
        - {name: state, mountPath: /var/lib/mooring}
        - {name: status, mountPath: /run/mooring}
        - {name: proc-sys-net, mountPath: /host/proc/sys/net}
  volumes:
    - {name: etc, hostPath: {path: /etc/mooring, type: DirectoryOrCreate}}
    - {name: state, hostPath: {path: /var/lib/mooring, type: DirectoryOrCreate}}
    # How this node does, for Mooring's DaemonSet.
    - {name: status, hostPath: {path: /run/mooring, type: DirectoryOrCreate}}
    - {name: proc-sys-net, hostPath: {path: /proc/sys/net, type: Directory}}
";

#[cfg(test)]
mod tests {
    use mooring_common::flags::Parsed;

    use super::*;

    fn read(line: &str) -> Result<ManifestFlags, FlagFaults> {
        let arguments = line.split_whitespace().map(ToOwned::to_owned);
        match TABLE.parse(arguments, |_| None)? {
            Parsed::Run(values) => ManifestFlags::read(&values),
            Parsed::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn prints_file_that_it_reads_back() {
        let flags = read(
            "--print=file --address=192.0.2.100,2001:db8::100 --interface=eth0 --revision=2 \
             --member=cp1=192.0.2.11 --member=cp2=2001:db8::12 --witness=w1=192.0.2.21 --gateway=192.0.2.1",
        )
        .unwrap();
        let file = parse(&flags.file).unwrap();
        assert_eq!((file.revision, file.addresses.len()), (2, 2));
        assert_eq!(file.voters(), ["cp1", "cp2", "w1"].into());
        assert_eq!(flags.print, Print::File);
    }

    #[test]
    fn tells_faults_of_flags_and_of_file_together() {
        let error = read("--print=all --address=here --member=cp1").unwrap_err();
        let told = error.to_string();
        for text in ["print", "addresses[0]", "cp1", "members", "interface"] {
            assert!(told.contains(text), "{text} in {told}");
        }
    }

    #[test]
    fn pod_needs_no_members_and_the_file_does() {
        let line = "--address=192.0.2.100 --interface=eth0";
        assert_eq!(read(line).unwrap().print, Print::Pod);
        assert!(read(&format!("{line} --print=file")).is_err());
        assert!(read(&format!("{line} --member=cp1=here")).is_err());
    }

    #[test]
    fn what_is_given_for_the_pod_is_checked_although_the_file_counts() {
        for (line, fault) in [
            ("--address=here", "addresses[0]"),
            ("--address=192.0.2.100,192.0.2.101", "addresses[1]"),
            ("--interface=lo", "interface"),
            ("--gateway=here", "gateways[0]"),
            ("--witness=w1=127.0.0.1", "witness.address"),
            ("--key-file=/root/key", "--key-file"),
        ] {
            let told = read(line).unwrap_err();
            assert_eq!(told.faults.len(), 1, "{line}: {told}");
            assert!(told.to_string().contains(fault), "{line}: {told}");
        }
        assert_eq!(read("").unwrap().print, Print::Pod);
    }

    #[test]
    fn pod_has_image_and_three_capabilities() {
        let pod = pod("registry.example/mooring-node:1.2.3");
        assert!(pod.contains("image: \"registry.example/mooring-node:1.2.3\""));
        assert!(pod.contains("drop: [ALL], add: [NET_ADMIN, NET_RAW, SYS_NICE]"));
        assert!(
            pod.contains("hostPath: {path: /run/mooring, "),
            "for --status-dir"
        );
    }
}
