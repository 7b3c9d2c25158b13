//! Which ports of this machine are free?

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context;

/// Returns as many different free loopback ports as are asked for.
///
/// They are free when this returns. The kernel hands out others for a while, so what is started on
/// them soon gets them.
///
/// # Errors
/// The kernel has no more ports.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    // All are held until the last is known, or the kernel would give the same one twice.
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        *port = listener
            .local_addr()
            .context("a listener has no address")?
            .port();
        listeners.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_from_each_other() {
        let mut ports = free_ports::<16>().unwrap().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 16);
    }
}
