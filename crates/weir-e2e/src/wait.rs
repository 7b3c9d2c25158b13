//! How does a test wait for the world without sleeping for a guessed time?

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// Time between two looks.
///
/// Shorter than what the servers take for a step, long enough for a look to cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks again and again until there is something, and returns it.
///
/// `look` answers `Ok(None)` while it is too early. An error counts as too early as well, because a
/// server that has not started yet gives one; the last one is told when time is up.
///
/// # Errors
/// Nothing was there within `limit`.
pub async fn wait_until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        let looked = tokio::time::timeout_at(deadline, look()).await;
        let last_error = match looked {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(anyhow::anyhow!("the last look did not end")),
        };
        if Instant::now() + LOOK_EVERY > deadline {
            let waited = limit.as_secs();
            match last_error {
                Some(error) => return Err(error.context(format!("no {what} in {waited} s"))),
                None => bail!("no {what} in {waited} s"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_found_is_returned() {
        let mut look_count = 0;
        let found = wait_until("third look", Duration::from_secs(5), async || {
            look_count += 1;
            Ok((look_count == 3).then_some("there"))
        });
        assert_eq!(found.await.unwrap(), "there");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_is_told_when_time_is_up() {
        let found = wait_until::<()>("server", Duration::from_secs(5), async || bail!("refused"));
        let error = found.await.unwrap_err();
        assert_eq!(format!("{error:#}"), "no server in 5 s: refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_does_not_outlast_the_limit() {
        let found = wait_until::<()>("answer", Duration::from_secs(5), async || {
            std::future::pending().await
        });
        assert!(found.await.is_err());
    }
}
