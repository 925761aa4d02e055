// SPDX-License-Identifier: GPL-2.0
//! Debian: which release this is, what its versions mean, and the packages it brings.

mod apt;
mod archive;
mod download;
mod install;

pub use apt::Apt;
pub use download::{need_space, unpack};
pub use install::{install, install_command};

/// The release this machine runs, when it is one we know: 12 or 13.
pub fn release() -> Option<u32> {
    if os_release("ID")? != "debian" {
        return None;
    }
    let version = os_release("VERSION_ID")?.parse().ok()?;
    [12, 13].contains(&version).then_some(version)
}

fn os_release(key: &str) -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let value = text
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim_matches('"').to_string())
}

/// `7.3~rc7-1~exp1` is upstream's 7.3-rc7, `1.95.0+dfsg1-2~bpo13+1` is 1.95.0.
pub fn upstream(version: &str) -> String {
    let v = version.split_once(':').map_or(version, |(_, v)| v);
    let v = v.rsplit_once('-').map_or(v, |(v, _)| v);
    let v = v.split_once("+dfsg").map_or(v, |(v, _)| v);
    v.replace('~', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_versions() {
        assert_eq!(upstream("7.3~rc7-1~exp1"), "7.3-rc7");
        assert_eq!(upstream("7.3.4-1~bpo13+1"), "7.3.4");
        assert_eq!(upstream("1.95.0+dfsg1-2~bpo13+1"), "1.95.0");
        assert_eq!(upstream("1:22.1.8-1~deb12u1"), "22.1.8");
    }
}
