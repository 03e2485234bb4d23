//! `make sweep-cloudscale` in small: each operation with a central that is killed, and each other
//! thing that can go wrong once. Another seed each time; `SEED=` replays one.

use mooring_bench::sweep::Scale;
use mooring_bench::sweep::cloudscale::run;

use super::sweeps::all_ended_well;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_at_a_call_all_ends_as_if_nothing_had() {
    all_ended_well(&run(&Scale::sample().unwrap()).await.unwrap());
}
