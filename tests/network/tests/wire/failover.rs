//! The failure cases of the layer-2 specification, by number, seen as users see them: three clients on
//! a real segment, and every frame captured.
//!
//! Cases that fit the same cluster share one, in a netlab of their own, of which at most two are at work
//! at once: what is measured should not be the machine. A case in which the rig itself stalled is
//! repeated; that nobody ever hears two speakers is asserted all the same.
//!
//! | cases | where |
//! |---|---|
//! | 1 to 11, 13, 14, 18 to 30 | here |
//! | 12: the wall clock jumps | the protocol's simulator: a namespace has no wall clock of its own, and the daemon's clock is CLOCK_BOOTTIME |
//! | 15 to 17: VLAN devices | the suite in the virtual machine |

mod alone;
mod api;
mod backups;
mod connections;
mod crowd;
mod intruders;
mod local;
mod lossy;
mod operations;
mod partitions;
mod preferred;
mod reopened;
mod shared;

use mooring_test_netlab::failover::Layout;
use mooring_test_netlab::netlab::ProxyMode;

shared::cases! {
    three_nodes_that_fail(Layout::of(3)): [
        alone::case_01_a_crashed_node_is_outlived_in_half_a_second,
        alone::case_02_a_killed_daemon_costs_its_clients_nothing,
        alone::case_03_a_frozen_daemon_falls_silent_and_says_nothing_of_before_when_it_goes_on,
        alone::case_06_the_owner_in_a_minority_falls_silent_and_the_majority_takes_over,
        alone::case_08_an_owner_that_nobody_hears_is_fenced,
        alone::case_09_an_owner_that_hears_nobody_releases,
        alone::case_10_nothing_moves_when_only_owner_and_deputy_do_not_hear_each_other,
        alone::case_13_a_machine_that_was_paused_says_nothing_of_before,
        alone::case_14_a_flapping_link_moves_addresses_three_times_at_most,
        alone::case_30_a_neighbour_that_was_just_updated_follows_in_the_first_rounds,
        lossy::case_11_heartbeats_lost_at_random_never_make_two_speakers,
        lossy::case_11_delay_disorder_and_duplicates_never_make_two_speakers,
        lossy::case_25_a_daemon_without_processor_time_never_makes_two_speakers,
    ];
    three_nodes_in_operation(Layout::of(3)): [
        api::case_04_an_owner_without_the_api_server_speaks_on,
        api::an_address_has_one_speaker_although_the_owner_does_not_learn_that_the_other_changed,
        api::case_18_without_an_api_server_nothing_moves_and_a_crash_is_outlived,
        api::case_19_a_daemon_restarted_without_an_api_server_serves,
        api::a_deleted_lease_moves_nothing_and_is_made_again,
        operations::case_20_a_rolling_restart_loses_nothing,
        operations::case_20_all_daemons_restarted_at_once_serve_in_two_seconds,
        operations::case_21_of_two_nodes_that_boot_together_one_speaks,
        operations::case_28_an_excluded_node_hands_over_without_a_loss,
        operations::case_28_a_node_that_the_autoscaler_deletes_hands_over_without_a_loss,
        operations::case_28_a_cordoned_node_keeps_its_addresses,
        connections::a_drain_resets_connections_where_none_are_kept,
        connections::drains_break_no_connection,
        connections::connections_outlive_a_move_and_the_return,
        connections::connections_outlive_moves_over_all_nodes_and_back,
        connections::connections_outlive_restarts_of_the_daemons_that_pass_them_on,
        connections::connections_end_with_the_node_that_they_began_at,
        connections::a_kernel_that_refuses_lets_addresses_move_as_before,
        connections::a_daemon_without_net_admin_says_that_it_keeps_no_connections,
        connections::a_cordoned_node_that_shuts_down_loses_no_datagram,
        operations::a_daemon_that_is_told_to_end_hands_over_without_a_loss,
        operations::an_upgrade_beside_the_old_daemon_is_not_seen_on_the_wire,
        operations::a_daemon_that_returns_gets_its_voice_back_quietly,
        reopened::nodes_that_lost_their_label_and_got_it_back_vote_within_a_second,
        intruders::case_23_a_foreign_host_is_told_of_and_withstood_once_in_ten_seconds,
        intruders::case_24_replayed_and_garbled_heartbeats_change_nothing,
        local::case_27_a_local_service_follows_its_endpoint_without_a_loss,
        local::with_connections_kept_a_local_service_follows_its_endpoint_and_breaks_none,
        local::an_address_does_not_move_before_the_next_service_proxy_has_the_endpoint,
    ];
    nodes_with_kube_proxy_in_iptables_mode(Layout { proxy_mode: ProxyMode::Iptables, ..Layout::of(3) }): [
        connections::the_table_goes_with_the_last_connection,
        connections::with_iptables_connections_outlive_a_move_and_the_return,
    ];
    a_segment_apart_from_the_node_network(Layout { second_network: true, ..Layout::of(3) }): [
        partitions::case_05_a_segment_that_is_dead_to_the_owner_is_left_at_once,
        partitions::case_29_the_switch_knows_the_speaker_though_nobody_talks,
        partitions::a_speaker_that_is_off_the_node_network_hands_over,
    ];
    four_nodes(Layout::of(4)): [
        partitions::case_07_two_halves_never_both_speak_and_one_goes_on,
        backups::a_restored_backup_moves_nothing_and_freezes_nobody,
        preferred::a_preferred_node_gets_its_addresses_back_and_no_connection_breaks,
    ];
    two_nodes(Layout::of(2)): [
        partitions::case_22_of_two_nodes_one_goes_on_in_two_seconds,
    ];
    two_nodes_and_a_witness(Layout { off_segment: vec!["n3"], ..Layout::of(3) }): [
        partitions::case_22_of_two_nodes_with_a_witness_one_goes_on_in_half_a_second,
    ];
    two_hundred_addresses(Layout { more_services: 99, release: true, ..Layout::of(3) }): [
        crowd::case_26_two_hundred_addresses_of_a_dead_node_are_all_announced_in_time,
        crowd::connections_outlive_evening_out,
    ];
}
