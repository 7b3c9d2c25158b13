//! Which simulated Azure is asked for on the command line?

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use weir_world::azure::{
    AzureFaults, AzureOptions, Delay, Latency, ParallelWrites, Throttling, TokenCheck,
};

/// The longest time that is taken: nobody waits for longer, and sums of it stay far from overflow.
const SECONDS_MAX: f64 = 86_400.0;

#[derive(Args, Debug)]
pub(super) struct OptionArgs {
    /// Subscription that is listed; requests may name others.
    #[arg(
        long,
        value_name = "ID",
        default_value = "22222222-2222-2222-2222-222222222222"
    )]
    subscription: String,
    /// Tenant whose clients get tokens.
    #[arg(
        long,
        value_name = "ID",
        default_value = "11111111-1111-1111-1111-111111111111"
    )]
    tenant: String,
    /// Secret that a client has to show for a token; empty if any will do.
    #[arg(long, value_name = "TEXT", default_value = "")]
    client_secret: String,
    /// Whether requests need a token that was issued here.
    #[arg(long, value_enum, default_value = "on")]
    token_check: Switch,
    /// Location of resource groups.
    #[arg(long, default_value = "westeurope")]
    pub(super) location: String,
    /// Seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Time until an instance runs, always the same; without it a minute or two as in Azure.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    create_seconds: Option<f64>,
    /// Time until a deleted instance is gone, always the same; without it about a minute.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delete_seconds: Option<f64>,
    /// Time that a change of a scale set or of an instance in place takes, always the same; without
    /// it about twenty seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    update_seconds: Option<f64>,
    /// Factor on the times of everything that Azure does.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = seconds)]
    time_scale: f64,
    /// What Retry-After says while an operation runs.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    retry_after_seconds: u32,
    /// Whether requests are counted against Azure's allowances.
    #[arg(long, value_enum, default_value = "on")]
    throttle: Switch,
    /// What a write does that meets an unfinished one on the same scale set.
    #[arg(long, value_enum, default_value = "preempt")]
    parallel_writes: Meeting,
    /// Version or id of an image whose machines never join; may be repeated.
    #[arg(long, value_name = "IMAGE")]
    bad_image: Vec<String>,
    /// What goes wrong by chance, as JSON: probabilities error500, lostAnswer, throttle, conflict,
    /// createFails, and vanishPerHour.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = faults)]
    faults: AzureFaults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Meeting {
    /// Both are carried out.
    Accept,
    /// The later one gets 409.
    Conflict,
    /// The later one ends the earlier one.
    Preempt,
}

impl OptionArgs {
    pub(super) fn azure(&self) -> AzureOptions {
        let secret = self.client_secret.trim();
        AzureOptions {
            subscriptions: vec![self.subscription.clone()],
            tenant: self.tenant.clone(),
            client_secret: (!secret.is_empty()).then(|| secret.to_owned()),
            token_check: match self.token_check {
                Switch::On => TokenCheck::On,
                Switch::Off => TokenCheck::Off,
            },
            location: self.location.clone(),
            latency: self.latency(),
            retry_after_seconds: self.retry_after_seconds,
            throttling: match self.throttle {
                Switch::On => Throttling::On,
                Switch::Off => Throttling::Off,
            },
            parallel_writes: match self.parallel_writes {
                Meeting::Accept => ParallelWrites::Accept,
                Meeting::Conflict => ParallelWrites::Conflict,
                Meeting::Preempt => ParallelWrites::Preempt,
            },
            bad_images: BTreeSet::from_iter(self.bad_image.iter().cloned()),
            faults: self.faults,
            ..AzureOptions::default()
        }
    }

    fn latency(&self) -> Latency {
        let mut latency = Latency::azure();
        if let Some(create) = self.create_seconds {
            latency.create = fixed(create);
            latency.appear = fixed(0.0);
            latency.boot = fixed(0.0);
        }
        if let Some(delete) = self.delete_seconds {
            latency.delete = fixed(delete);
        }
        if let Some(update) = self.update_seconds {
            latency.update = fixed(update);
        }
        latency.scaled(self.time_scale)
    }
}

fn fixed(seconds: f64) -> Delay {
    let span = Duration::from_secs_f64(seconds);
    Delay::fixed(SignedDuration::try_from(span).expect("seconds are bounded"))
}

/// Reads a time, or a factor, that is not negative.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "give a number from 0 to {SECONDS_MAX}, such as 1.5"
        )),
    }
}

fn faults(text: &str) -> Result<AzureFaults, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Call {
        #[command(flatten)]
        args: OptionArgs,
    }

    fn options(flags: &[&str]) -> AzureOptions {
        Call::try_parse_from([&["weir"], flags].concat())
            .unwrap()
            .args
            .azure()
    }

    #[test]
    fn without_flags_it_is_azure_as_the_world_has_it() {
        assert_eq!(options(&[]), AzureOptions::default());
    }

    #[test]
    fn times_that_are_given_are_kept_to() {
        let flags = [
            "--create-seconds=2.5",
            "--delete-seconds=0",
            "--update-seconds=1",
        ];
        let latency = options(&flags).latency;
        assert_eq!(
            latency.create,
            Delay::fixed(SignedDuration::from_millis(2500))
        );
        assert_eq!(latency.delete, Delay::fixed(SignedDuration::ZERO));
        assert_eq!(latency.update, Delay::fixed(SignedDuration::from_secs(1)));
        assert_eq!(latency.reimage, Latency::azure().reimage);
    }

    #[test]
    fn nonsense_is_refused() {
        let calls = [
            "--create-seconds=-1",
            "--create-seconds=NaN",
            "--time-scale=inf",
            "--throttle=maybe",
            "--faults={\"fire\": 1}",
            "--seed=x",
        ];
        for flag in calls {
            assert!(Call::try_parse_from(["weir", flag]).is_err(), "{flag}");
        }
    }
}
