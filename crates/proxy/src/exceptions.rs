//! Hosts without a proxy: `NO_PROXY`.
//!
//! There is no standard. This supports the syntax that curl and Go share: entries separated by
//! commas or spaces, each `*`, a name with its subdomains, an address, or a network such as
//! `10.0.0.0/8`. Names and addresses may have a port.

use std::net::IpAddr;

/// Returns true if a list matches a host and port. An IPv6 address may have brackets.
pub(crate) fn hold(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    let host = host.to_ascii_lowercase();
    let entries = list.split(|c: char| c == ',' || c.is_whitespace());
    (entries.filter(|entry| !entry.is_empty())).any(|entry| matches(entry, &host, port))
}

fn matches(entry: &str, host: &str, port: u16) -> bool {
    let ip: Option<IpAddr> = host.parse().ok();
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        return ip.is_some_and(|ip| is_within(ip, network, bits));
    }
    let (name, of_port) = match entry.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, Some(digits)),
        _ => (entry, None),
    };
    if of_port.is_some_and(|digits| digits.parse() != Ok(port)) {
        return false;
    }
    if let Some(ip) = ip {
        return name.trim_matches(['[', ']']).parse() == Ok(ip);
    }
    let name = name.trim_start_matches('*').trim_matches('.');
    let name = name.to_ascii_lowercase();
    let below = host.strip_suffix(&*name);
    !name.is_empty() && below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_within(ip: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) if bits <= 32 => {
            let differing = ip.to_bits() ^ network.to_bits();
            differing.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) if bits <= 128 => {
            let differing = ip.to_bits() ^ network.to_bits();
            differing.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_hold_names_subdomains_addresses_and_networks() {
        for (list, host) in [
            ("*", "a.example"),
            ("x,a.example", "a.example"),
            ("x, a.example ,y", "A.Example"),
            ("x a.example", "b.a.example"),
            (".a.example", "b.a.example"),
            ("*.a.example", "b.a.example"),
            ("a.example", "a.example."),
            ("a.example:8080", "a.example"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.1:8080", "10.0.0.1"),
            ("10.0.0.0/8", "10.200.0.1"),
            ("0.0.0.0/0", "1.2.3.4"),
            ("::1", "[::1]"),
            ("[fe80::1]:8080", "[fe80::1]"),
            ("fe80::/10", "[fe80::1]"),
        ] {
            assert!(hold(list, host, 8080), "{list} {host}");
        }
        for (list, host) in [
            ("", "a.example"),
            (", ,", "a.example"),
            (".", "a.example"),
            ("a.example", "ba.example"),
            ("b.a.example", "a.example"),
            ("a.example:81", "a.example"),
            ("a.example:x", "a.example"),
            ("1", "10.0.0.1"),
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.0.0.0/33", "10.0.0.1"),
            ("10.0.0.0/x", "10.0.0.1"),
            ("10.0.0.0/8", "[::1]"),
            ("10.0.0.0/8", "a.example"),
        ] {
            assert!(!hold(list, host, 8080), "{list} {host}");
        }
    }
}
