//! The fail-over protocol in a simulated simulation, as far as `make test` has time for it; `make sim`
//! does it at length.

use mooring_failover_sim::daemon_scenarios;
use mooring_failover_sim::invariants::Violation;
use mooring_failover_sim::model::Small;
use mooring_failover_sim::mutations::Mutation;
use mooring_failover_sim::report::{describe, last_of};
use mooring_failover_sim::scenarios::Scenario;
use mooring_failover_sim::schedule::{Schedule, fail_over};
use mooring_failover_sim::search::Search;
use mooring_failover_sim::simulation;
use mooring_failover_sim::tally::Tally;
use mooring_failover_sim::whole::{Off, WHOLE};
use mooring_node::protocol::Parameters;

/// The schedules that `make test` runs of all.
const SCHEDULES: u64 = 2_000;

/// Those with questions before the first use of each address. Seed 661 shows that asking takes time.
const FIRST_USES: u64 = 700;

/// The schedules in which connections stay with the node that they began at: half of so many.
const KEEPING: u64 = 300;

/// The schedules with preferences for all nodes.
const PREFERRING: u64 = 60;

/// With the rule all is well in the schedule that it forbids; without it something is not.
fn prove(name: &str) -> Violation {
    let scenario = Scenario::of_mutation(name).expect("each rule has its scenario");
    let mutation = Mutation::named(name).expect("each rule can be switched off");
    if let Some((schedule, violation)) = scenario.violation(fail_over()) {
        panic!(
            "rule {name} is in force, and yet {violation}\n{:#?}\n{}",
            schedule.steps,
            last_of(&schedule, 2_000_000_000)
        );
    }
    let (_, violation) = scenario
        .violation(mutation.parameters())
        .unwrap_or_else(|| panic!("nothing shows that rule {name} is needed"));
    println!("without {name}: {violation}");
    violation
}

fn is_two_speakers(violation: &Violation) -> bool {
    matches!(violation, Violation::TwoSpeakers { .. })
}

fn is_dark(violation: &Violation) -> bool {
    matches!(violation, Violation::Dark { .. })
}

#[test]
fn a_mandate_that_outlasts_the_promise_gives_two_speakers() {
    assert!(is_two_speakers(&prove("mandate")));
}

#[test]
fn a_release_that_does_not_last_gives_two_speakers() {
    assert!(is_two_speakers(&prove("release")));
}

#[test]
fn rule_a_an_echo_for_a_set_that_the_voter_does_not_know_gives_two_speakers() {
    assert!(is_two_speakers(&prove("A")));
}

#[test]
fn rule_b_a_voter_that_has_just_started_grants_what_it_had_promised() {
    assert!(is_two_speakers(&prove("B")));
}

#[test]
fn rule_c_a_stale_echo_counts_again_once_its_number_comes_round() {
    assert!(is_two_speakers(&prove("C")));
}

#[test]
fn rule_d_an_echo_on_its_way_brings_a_right_back_that_was_given_up() {
    assert!(is_two_speakers(&prove("D")));
}

#[test]
fn rule_e_voters_that_change_twice_leave_a_majority_behind_that_knows_nothing_of_it() {
    assert!(is_two_speakers(&prove("E")));
}

#[test]
fn rule_f_the_second_of_two_voters_speaks_before_the_first_has_stopped() {
    assert!(is_two_speakers(&prove("F")));
}

#[test]
fn rule_f_a_primary_of_two_goes_on_by_itself_while_others_are_a_majority() {
    assert!(is_two_speakers(&prove("primary")));
}

#[test]
fn rule_g_survivors_go_on_although_they_hear_those_whom_they_hold_for_dead() {
    assert!(is_two_speakers(&prove("G")));
}

#[test]
fn rule_h_a_voter_that_forgot_takes_a_recording_for_the_holder() {
    assert!(is_dark(&prove("H")));
}

#[test]
fn rule_i_a_holder_that_nobody_hears_on_the_segment_keeps_its_key() {
    assert!(is_dark(&prove("I")));
}

#[test]
fn rule_j_a_holder_cannot_join_again_while_the_api_server_is_away() {
    assert!(is_dark(&prove("J")));
}

/// Runs so many schedules, in which there is nothing that must never be.
fn all_is_well(schedules: u64, parameters: Parameters) -> Tally {
    let search = Search {
        first: 1,
        schedules,
        parameters,
        off: Off::default(),
        enough: 1,
        threads: None,
    };
    let (tally, found, _) = search.run();
    if let Some(found) = found.first() {
        panic!(
            "{}\n{}\nreplay: make sim SEED={} PROBING={}\n{}",
            found.violation,
            describe(&found.schedule),
            found.schedule.seed,
            if parameters.probe_addresses { "1" } else { "" },
            last_of(&found.schedule, 2_000_000_000)
        );
    }
    assert_eq!(tally.schedules, schedules);
    tally
}

/// Where addresses are asked for before their first use, that makes no two speakers, and takes no longer than asking
/// does.
#[test]
fn asking_before_the_first_use_does_no_harm() {
    let tally = all_is_well(FIRST_USES, Parameters::default());
    assert!(tally.transitions_of("claim won") > 0);
}

#[test]
fn random_schedules_of_faults_show_nothing_that_must_never_be() {
    let tally = all_is_well(SCHEDULES, fail_over());
    for needed in [
        "joined",
        "lapsed",
        "claim won",
        "hand-over done",
        "suspected",
    ] {
        assert!(tally.transitions_of(needed) > 0, "{needed} never happened");
    }
}

/// Whoever passes on connections to whom: a client's frame comes to rest, some after more than one hop.
#[test]
fn no_frame_is_passed_on_for_ever() {
    let parameters = Parameters {
        keep_connections: true,
        ..fail_over()
    };
    let tally = all_is_well(KEEPING, parameters);
    assert!(tally.hops > 1, "{} hops at most", tally.hops);
}

/// The same with preferences for all nodes: at no instant two speak, nothing is dark, and in the end the nodes
/// that are preferred most have everything.
#[test]
fn preferred_nodes_have_everything_in_the_end() {
    let mut moved = 0;
    for seed in 1..=PREFERRING {
        let schedule = Schedule::preferring(seed);
        let outcome = simulation::run(&schedule, None);
        if let Some(violation) = outcome.violation {
            panic!(
                "seed {seed}: {violation}\n{}\n{}",
                describe(&schedule),
                last_of(&schedule, 2_000_000_000)
            );
        }
        moved += outcome.tally.transitions_of("rebalanced");
    }
    assert!(moved > 0, "nothing was moved to a preferred node");
}

/// Whole daemons, in a written schedule that was wrong before something was mended.
fn all_is_well_in(name: &str) {
    let schedules = daemon_scenarios::named(name).expect("there are such schedules");
    for schedule in schedules {
        let outcome = simulation::run(&schedule, None);
        if let Some(violation) = outcome.violation {
            panic!("{violation}\n{}", last_of(&schedule, 2_000_000_000));
        }
        assert!(outcome.tally.begins > 0, "nobody spoke");
    }
}

#[test]
fn a_segment_that_lost_its_address_and_got_it_back_votes_at_once() {
    all_is_well_in("reopened");
}

#[test]
fn a_candidate_that_does_not_vote_takes_what_an_unplugged_one_let_go() {
    all_is_well_in("unplugged");
}

#[test]
fn an_address_that_only_one_node_may_speak_for_is_back_with_its_link_however_often_that_went() {
    all_is_well_in("flapping-alone");
}

#[test]
fn a_node_that_lost_its_label_and_got_it_back_votes_at_once() {
    all_is_well_in("relabelled");
}

#[test]
fn an_address_has_one_speaker_although_another_of_its_service_has_changed() {
    all_is_well_in("readdressed");
}

#[test]
fn daemons_agree_with_an_api_server_that_went_back_in_time() {
    all_is_well_in("restored");
}

#[test]
fn the_last_one_goes_on_although_an_api_server_that_went_back_names_none_that_lives() {
    all_is_well_in("restored-alone");
}

#[test]
fn daemons_agree_on_an_l2_network_that_was_made_anew() {
    all_is_well_in("made-anew");
}

#[test]
fn another_cluster_of_the_same_names_changes_nothing() {
    all_is_well_in("strangers");
}

#[test]
fn in_small_worlds_no_history_of_three_rounds_does_harm() {
    for small in [Small::rejoining, Small::growing] {
        let explored = small(fail_over(), 3).explore(2);
        assert_eq!(explored.violation, None);
        assert!(explored.states > 100, "only {} states", explored.states);
    }
}

#[test]
fn exploring_a_small_world_finds_a_lapse_that_is_taken_back() {
    let mutation = Mutation::named("D").expect("rule D can be switched off");
    let explored = Small::rejoining(mutation.parameters(), 3).explore(2);
    let violation = explored
        .violation
        .expect("without rule D something is wrong");
    assert!(violation.contains("two speakers"), "{violation}");
}

#[test]
fn one_seed_always_gives_the_same_world() {
    // The last of these is of whole daemons.
    for seed in [3, 18, 17] {
        let schedule = Schedule::random(seed, fail_over());
        let one = simulation::run(&schedule, None);
        let other = simulation::run(&schedule, None);
        assert!(one.tally.messages > 0, "nobody said anything");
        assert_eq!(one.tally.events, other.tally.events);
        assert_eq!(one.tally.messages, other.tally.messages);
        assert_eq!(one.dark_times, other.dark_times);
    }
}

#[test]
fn a_schedule_has_at_least_two_faults_three_nodes_and_half_a_minute() {
    for seed in 0..2_000 {
        let schedule = Schedule::random(seed, fail_over());
        let shape = &schedule.shape;
        assert!(schedule.faults.len() >= 2, "seed {seed}");
        assert!((3..=9).contains(&shape.total()), "seed {seed}");
        assert!(schedule.ends_at >= 30_000_000_000, "seed {seed}");
        assert!((1..=12).contains(&shape.keys.len()), "seed {seed}");
        assert_eq!(shape.whole, seed % WHOLE == 1, "seed {seed}");
    }
}
