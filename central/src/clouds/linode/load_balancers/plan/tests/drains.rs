//! Nodes that leave get no new connections for a while.

use tokio::time::{Instant, advance};

use super::*;
use crate::engine::drains::Drains;
use crate::engine::provider::Desired as _;

const PERIOD: Duration = Duration::from_secs(30);

/// What is planned with drains, and what is then: the engine does the same.
struct Rounds {
    simulation: Simulation,
    since: std::collections::HashMap<String, Instant>,
    period: Duration,
}

impl Rounds {
    fn of(observed: Observed, period: Duration) -> Self {
        Self {
            simulation: Simulation::of(observed, []),
            since: [].into(),
            period,
        }
    }

    /// What is done about that, and when to look again.
    fn round(&mut self, mut desired: Desired) -> (Vec<String>, Option<Duration>) {
        let mut drains = Drains::new(self.period, std::mem::take(&mut self.since));
        desired.drain(&self.simulation.observed, &mut drains);
        let (next, since) = drains.finish();
        self.since = since;
        self.simulation.begins();
        let all = plan(&desired, Some(&self.simulation.observed)).unwrap();
        all.steps()
            .iter()
            .for_each(|step| self.simulation.take(step));
        (all.steps().iter().map(text).collect(), next)
    }
}

fn of(hosts: &[u8]) -> Desired {
    wanted(PORTS, &[], hosts)
}

const DRAIN: &str = "set mode to drain of node node-1 (192.168.128.1:30080) of config c0";
const OUT: &str = "take node node-1 (192.168.128.1:30080) out of config c0";
const OUT_OF_UDP: &str = "take node node-1 (192.168.128.1:30053) out of config c1";

/// Nodes of UDP have no mode, and go at once.
#[tokio::test(start_paused = true)]
async fn leaving_node_is_drained_and_then_deleted() {
    let mut rounds = Rounds::of(built(&of(&[1, 2])), PERIOD);
    let (done, next) = rounds.round(of(&[2]));
    assert_eq!(done, [DRAIN, OUT_OF_UDP]);
    assert_eq!(next, Some(PERIOD));
    // The period begins when it is seen that it gets no new connections.
    assert_eq!(rounds.round(of(&[2])), (vec![], Some(PERIOD)));
    advance(PERIOD / 3).await;
    assert_eq!(rounds.round(of(&[2])), (vec![], Some(PERIOD * 2 / 3)));
    advance(PERIOD * 2 / 3).await;
    assert_eq!(rounds.round(of(&[2])), (vec![OUT.to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn node_that_comes_back_accepts_again() {
    let mut rounds = Rounds::of(built(&wanted("tcp/80", &[], &[1, 2])), PERIOD);
    let of = |hosts: &[u8]| wanted("tcp/80", &[], hosts);
    assert_eq!(rounds.round(of(&[2])).0, [DRAIN]);
    let (done, next) = rounds.round(of(&[1, 2]));
    assert_eq!(
        done,
        ["set mode to accept of node node-1 (192.168.128.1:30080) of config c0"]
    );
    assert_eq!(next, None);
    // Its time begins anew.
    assert_eq!(rounds.round(of(&[2])).0, [DRAIN]);
    assert_eq!(rounds.round(of(&[2])), (vec![], Some(PERIOD)));
}

#[tokio::test(start_paused = true)]
async fn no_period_means_no_drain() {
    let mut rounds = Rounds::of(built(&of(&[1, 2])), Duration::ZERO);
    let (done, next) = rounds.round(of(&[2]));
    assert_eq!(done, [OUT, OUT_OF_UDP]);
    assert_eq!(next, None);
}

/// The others come first, so that somebody accepts all the time.
#[tokio::test(start_paused = true)]
async fn successor_accepts_before_the_other_one_drains() {
    let mut rounds = Rounds::of(built(&wanted("tcp/80", &[], &[1])), PERIOD);
    let (done, _) = rounds.round(wanted("tcp/80", &[], &[2]));
    assert_eq!(
        done,
        ["add node node-2 (192.168.128.2:30080) to config c0", DRAIN]
    );
}

/// The last ones serve on, as without drains.
#[tokio::test(start_paused = true)]
async fn nobody_is_drained_where_nobody_else_is_there() {
    for ports in ["tcp/80", PORTS] {
        let observed = built(&wanted(ports, &[], &[1, 2]));
        let mut desired = wanted(ports, &[], &[]);
        let mut drains = Drains::new(PERIOD, [].into());
        desired.drain(&observed, &mut drains);
        let why = refusal(&desired, Some(&observed));
        assert!(why.contains("no nodes available for nodebalancer"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn node_of_a_port_that_goes_is_not_drained() {
    let mut rounds = Rounds::of(built(&wanted("tcp/80 tcp/443", &[], &[1])), PERIOD);
    let (done, next) = rounds.round(wanted("tcp/80", &[], &[1]));
    assert_eq!(done, ["delete config tcp/443 (c1)"]);
    assert_eq!(next, None);
}
