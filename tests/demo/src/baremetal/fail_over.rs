//! The server that speaks for the address crashes, and another answers.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use kube::api::{Api, ListParams};
use mooring_common::l2_network::L2Network;

use super::network::{self, Asked, Server};
use super::scenario::Cast;
use super::service::speaker;
use crate::console::{Console, Step};
use crate::scenario::MOORING;

/// Takes the server down that the client's answers come from, and waits for those of another.
pub(super) async fn take_down(console: &Console, cast: &mut Cast, address: Ipv4Addr) -> Result<()> {
    let step = Step::new("all daemons vote", 240, MOORING);
    console
        .run(step, async {
            let networks = Api::<L2Network>::all(cast.cluster.admin());
            let voters = step
                .until(async || {
                    let all = networks.list(&ListParams::default()).await?.items;
                    let statuses = all.into_iter().filter_map(|network| network.status);
                    let voters = statuses.filter_map(|status| status.voters).next();
                    let mut voters = voters.context("nobody votes yet")?.nodes;
                    ensure!(voters.len() == cast.servers.len(), "these do: {voters:?}");
                    voters.sort_unstable();
                    Ok(voters)
                })
                .await?;
            Ok((
                (),
                format!("{}: two of them can replace the third", voters.join(", ")),
            ))
        })
        .await?;
    let step = Step::new("one of them speaks", 120, MOORING);
    let gone = console
        .run(step, async {
            let server = step.until(async || speaker(cast, address).await).await?;
            Ok((server, server.name.to_owned()))
        })
        .await?;
    console.chapter(&format!("The server that speaks crashes: {}", gone.name));
    network::crash(&cast.hands, gone).await?;
    cast.kubelets.remove(gone.name);
    console.event(&format!(
        "{}: cable pulled, mooring-node and kubelet killed",
        gone.name
    ));
    let others: Vec<&Server> = cast
        .servers
        .iter()
        .filter(|s| s.name != gone.name)
        .collect();
    let step = Step::new("another server answers", 240, MOORING);
    console
        .run(step, async {
            let greetings: Vec<String> = others.iter().map(|server| server.greeting()).collect();
            network::await_answer(&cast.hands, &greetings).await?;
            let asked = network::asked(&cast.hands).await?;
            let Pause { without, usual, by } = pause(&asked, &gone.greeting())
                .context("the client has no answers of two servers")?;
            Ok((
                (),
                format!(
                    "{by:?}; {without} ms between the last answer of {} and this one, in the VM \
                     (before, answers were {usual} ms apart at most)",
                    gone.name
                ),
            ))
        })
        .await?;
    let step = Step::new("another MAC seen by the router", 60, MOORING);
    console
        .run(step, async {
            let now = step
                .until(async || {
                    let now = speaker(cast, address).await?;
                    ensure!(
                        now.name != gone.name,
                        "the router still believes in {}",
                        now.name
                    );
                    Ok(now)
                })
                .await?;
            Ok(((), format!("{address} is at {} ({})", now.mac(), now.name)))
        })
        .await
}

/// What a client notices of a fail-over.
#[derive(Debug, PartialEq, Eq)]
struct Pause {
    /// From the last answer of the one that is gone to the first of another, in milliseconds.
    without: u64,
    /// The longest time between two answers before, in milliseconds.
    usual: u64,
    /// The first answer of another.
    by: String,
}

/// The pause after the last answer of this wording. `None`: there is none, or none of another after it.
fn pause(asked: &[Asked], gone: &str) -> Option<Pause> {
    let answers = asked
        .iter()
        .filter_map(|a| Some((a.at, a.answer.as_deref()?)));
    let answers: Vec<(u64, &str)> = answers.collect();
    let last = answers.iter().rposition(|(_, answer)| *answer == gone)?;
    let ((before, _), (after, by)) = (answers[last], *answers.get(last + 1)?);
    let apart = answers[..=last].windows(2).map(|two| two[1].0 - two[0].0);
    Some(Pause {
        without: after - before,
        usual: apart.max().unwrap_or(0),
        by: by.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(at: u64, answer: Option<&str>) -> Asked {
        Asked {
            at,
            answer: answer.map(str::to_owned),
        }
    }

    #[test]
    fn a_pause_is_between_the_last_answer_of_one_and_the_first_of_another() {
        let mut all = vec![
            asked(50, None),
            asked(100, Some("n1")),
            asked(220, Some("n1")),
            asked(470, None),
        ];
        assert_eq!(pause(&all, "n1"), None);
        all.push(asked(700, Some("n2")));
        all.push(asked(800, Some("n2")));
        let expected = Pause {
            without: 480,
            usual: 120,
            by: "n2".to_owned(),
        };
        assert_eq!(pause(&all, "n1"), Some(expected));
        assert_eq!(pause(&all, "n3"), None);
    }
}
