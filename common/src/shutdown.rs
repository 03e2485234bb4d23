//! The end of a program.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal: what was under way is cut off.
const CUT_OFF: i32 = 1;

/// A token that is cancelled by SIGTERM or SIGINT. A second one ends the process immediately.
///
/// # Errors
/// If the process cannot listen to signals.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        tracing::info!("{}: finishing", next().await);
        cancelled.cancel();
        tracing::warn!("{} once more: ending immediately", next().await);
        std::process::exit(CUT_OFF);
    });
    Ok(token)
}
