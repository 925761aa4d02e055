// SPDX-License-Identifier: GPL-2.0
//! Counters the kernel keeps as `name value` lines: /proc/vmstat, memory.stat, memory.events, and the lab's own.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All counters of one file at one moment.
#[derive(Clone, Debug, Default)]
pub struct VmStat {
    from: String,
    values: BTreeMap<String, i64>,
}

impl VmStat {
    /// /proc/vmstat.
    pub fn now() -> Result<VmStat> {
        VmStat::read(Path::new("/proc/vmstat"))
    }

    /// Any file of that form.
    pub fn read(path: &Path) -> Result<VmStat> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        VmStat::parse(&text, &path.display().to_string())
    }

    fn parse(text: &str, from: &str) -> Result<VmStat> {
        let mut values = BTreeMap::new();
        for line in text.lines() {
            let (name, value) = line
                .split_once(char::is_whitespace)
                .with_context(|| format!("{from}: `{line}` is not `name value`"))?;
            let value = value
                .trim()
                .parse()
                .with_context(|| format!("{from}: `{line}` does not end in a number"))?;
            values.insert(name.to_string(), value);
        }
        Ok(VmStat {
            from: from.into(),
            values,
        })
    }

    /// A counter this kernel does not have is an error: it must not read as 0.
    pub fn get(&self, key: &str) -> Result<i64> {
        match self.values.get(key) {
            Some(value) => Ok(*value),
            None => bail!("{} of this kernel has no `{key}`", self.from),
        }
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values.iter().map(|(k, v)| (k.as_str(), *v))
    }
}

/// How far `key` went.
pub fn delta(before: &VmStat, after: &VmStat, key: &str) -> Result<i64> {
    Ok(after.get(key)? - before.get(key)?)
}

/// A file that holds one number.
pub fn number(path: &Path) -> Result<i64> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.trim();
    text.parse()
        .with_context(|| format!("{} is `{text}`, not a number", path.display()))
}

/// A line of /proc/meminfo, in KiB.
pub fn meminfo(key: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    meminfo_of(&text, key).with_context(|| format!("/proc/meminfo has no `{key}` in kB"))
}

fn meminfo_of(text: &str, key: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters() {
        let a = VmStat::parse("nr_free_pages 12\nthp_split_page 3\n", "a").unwrap();
        let b = VmStat::parse("nr_free_pages 10\nthp_split_page 7\n", "b").unwrap();
        assert_eq!(delta(&a, &b, "thp_split_page").unwrap(), 4);
        assert_eq!(delta(&a, &b, "nr_free_pages").unwrap(), -2);
        let e = delta(&a, &b, "thp_split").unwrap_err().to_string();
        assert_eq!(e, "b of this kernel has no `thp_split`");
        assert_eq!(a.iter().count(), 2);
    }

    #[test]
    fn not_counters() {
        for bad in ["nr_free_pages\n", "a b\n", "a 1 2\n"] {
            assert!(VmStat::parse(bad, "x").is_err(), "{bad}");
        }
    }

    #[test]
    fn memory() {
        let text = "MemTotal:       24689748 kB\nMemFree: 1 kB\nHugePages_Total:       0\n";
        assert_eq!(meminfo_of(text, "MemTotal"), Some(24_689_748));
        assert_eq!(meminfo_of(text, "Mem"), None);
        assert_eq!(meminfo_of(text, "HugePages_Total"), None);
        assert!(meminfo("MemTotal").unwrap() > 0);
    }
}
