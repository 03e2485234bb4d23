//! What the scenario has done in the VM: it calls its starter by its network card, and gets shell scripts,
//! one after the other.
//!
//! DesiredSegment are JSON texts, one a line; so are outcomes: `{"Ok": what was printed}` or `{"Err": why}`.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, oneshot};

use super::machine;
use mooring_test_netlab::netlab::Netlab;
use mooring_test_netlab::vm::{Files, quote, run_test_in_machine, shared};

/// The file in which the VM finds whom to call.
const ADDRESS: &str = "hands";

/// What came of an order.
type Outcome = Result<String, String>;

/// A VM that is starting.
#[derive(Debug)]
pub(super) struct Summons {
    listener: TcpListener,
    ended: oneshot::Receiver<Result<()>>,
}

/// A VM that does what it is told. It ends when this is dropped.
#[derive(Clone, Debug)]
pub(super) struct Hands {
    connection: Arc<Mutex<Connection>>,
}

#[derive(Debug)]
struct Connection {
    outcomes: Lines<BufReader<OwnedReadHalf>>,
    desired: OwnedWriteHalf,
}

/// Starts a VM in which this program runs again, as the test of this name if it has tests.
pub(super) async fn summon(test: &str) -> Result<Summons> {
    let listener = TcpListener::bind((Netlab::GATEWAY_V4, 0)).await?;
    let address = listener.local_addr()?.to_string();
    let files = Files::from([(ADDRESS.to_owned(), address.into_bytes())]);
    let (sender, ended) = oneshot::channel();
    let test = test.to_owned();
    // No task, which the runtime would wait for at its end.
    std::thread::spawn(move || {
        // Nobody may wait for it any more.
        let _ = sender.send(run_test_in_machine(machine(), &test, &files));
    });
    Ok(Summons { listener, ended })
}

impl Summons {
    /// Waits until the VM calls.
    pub(super) async fn answered(self) -> Result<Hands> {
        let (stream, _) = tokio::select! {
            call = self.listener.accept() => call?,
            ended = self.ended => {
                ended.unwrap_or_else(|_| Ok(()))?;
                return Err(anyhow!("the VM ended before it called"));
            }
        };
        stream.set_nodelay(true)?;
        let (outcomes, desired) = stream.into_split();
        let outcomes = BufReader::new(outcomes).lines();
        let connection = Arc::new(Mutex::new(Connection { outcomes, desired }));
        Ok(Hands { connection })
    }
}

impl Hands {
    /// Has a shell script run, and gives what it printed. What it leaves running must print elsewhere.
    pub(super) async fn run(&self, script: &str) -> Result<String> {
        let connection = Arc::clone(&self.connection);
        let order = serde_json::to_string(script)? + "\n";
        // As a task: to its end even if nobody waits any more, so that no order gets the outcome of
        // another.
        let exchange = tokio::spawn(async move {
            let mut connection = connection.lock().await;
            connection.desired.write_all(order.as_bytes()).await?;
            let line = connection.outcomes.next_line().await?;
            let outcome: Outcome = serde_json::from_str(&line.context("the VM is gone")?)?;
            anyhow::Ok(outcome)
        });
        exchange.await??.map_err(anyhow::Error::msg)
    }

    /// Writes files into the VM's shared folder.
    pub(super) async fn put(&self, files: &Files) -> Result<()> {
        for (name, content) in files {
            let script = format!(
                "umask 077; base64 --decode >{} <<END\n{}\nEND",
                quote(&shared(name)),
                BASE64_STANDARD.encode(content)
            );
            self.run(&script).await?;
        }
        Ok(())
    }
}

/// In the VM: does what its starter says, until that is gone.
pub(super) async fn obey() {
    run(CARD).expect("the VM has a network card");
    let address = fs::read_to_string(shared(ADDRESS)).expect("the file says whom to call");
    let stream = TcpStream::connect(address.trim()).await;
    let (desired, mut outcomes) = stream.expect("its starter listens").into_split();
    let mut desired = BufReader::new(desired).lines();
    while let Ok(Some(order)) = desired.next_line().await {
        let script: String = serde_json::from_str(&order).expect("an order is a JSON text");
        let outcome = serde_json::to_string(&run(&script)).expect("texts can be written");
        if outcomes
            .write_all((outcome + "\n").as_bytes())
            .await
            .is_err()
        {
            break;
        }
    }
}

/// By it the VM reaches its starter's netlab.
const CARD: &str = "
    card=$(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/* | head -n1)
    ip link set lo up
    ip link set $(basename $card) name out0
    ip link set out0 up
    ip address add 10.0.2.15/24 dev out0
    ip route add default via 10.0.2.2";

fn run(script: &str) -> Outcome {
    let output = Command::new("sh")
        .args(["-ec", script])
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| format!("running sh: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{script}` in the VM: {}: {said}", output.status))
    }
}
