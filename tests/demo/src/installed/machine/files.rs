//! What the programs of a machine are configured with.

use serde_json::json;

use super::super::images::SANDBOX;

/// What a kubelet wants of the kernel, which belongs to the whole machine: the nodes see these files
/// instead.
const KERNEL_SETTINGS: [(&str, u32); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// A D-Bus on which everybody may do everything.
const BUS: &str = r#"<busconfig>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// All files that do not change: their paths on the disk, and their text.
pub(super) fn configuration(name: &str, number: u8) -> Vec<(String, String)> {
    let mut files = vec![
        ("etc/containerd/config.toml".to_owned(), containerd()),
        (
            "etc/cni/net.d/10-pods.conflist".to_owned(),
            pod_network(number),
        ),
        ("etc/machine-id".to_owned(), format!("{number:032x}\n")),
        ("etc/hostname".to_owned(), format!("{name}\n")),
        ("etc/dbus.conf".to_owned(), BUS.to_owned()),
    ];
    files.extend(
        KERNEL_SETTINGS.map(|(setting, value)| (format!("sys/{setting}"), format!("{value}\n"))),
    );
    files
}

/// A machine without CAP_SYS_RESOURCE cannot keep its processes from being killed first where memory is short.
fn containerd() -> String {
    format!(
        "version = 3\n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
         sandbox = '{SANDBOX}'\n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         restrict_oom_score_adj = true\n\
         [plugins.'io.containerd.cri.v1.runtime'.cni]\n\
         bin_dirs = ['/usr/lib/cni']\n\
         conf_dir = '/etc/cni/net.d'\n"
    )
}

/// Pods on a bridge of the node: all nodes of the lab have routes to the Pods of the others.
fn pod_network(number: u8) -> String {
    let ipam = json!({
        "type": "host-local",
        "ranges": [[{ "subnet": format!("10.244.{number}.0/24") }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dataDir": "/run/cni",
    });
    let bridge = json!({ "type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": ipam });
    json!({ "cniVersion": "1.0.0", "name": "pods", "plugins": [bridge] }).to_string()
}

/// The kubelet's configuration: with cgroups of its own, and without what a small part of a machine cannot
/// promise.
pub(super) fn kubelet(cgroup: &str) -> String {
    let nothing = json!({
        "memory.available": "0%",
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
        "imagefs.inodesFree": "0%",
    });
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": [],
        "evictionHard": nothing,
        "failCgroupV1": false,
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "oomScoreAdj": 0,
        "resolvConf": "",
        // The daemons are among the Pods that are ended last.
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "20s",
        "staticPodPath": "/etc/kubernetes/manifests",
        // Roll-outs wait for what the kubelet says of a Pod.
        "syncFrequency": "10s",
    })
    .to_string()
}
