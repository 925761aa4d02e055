// SPDX-License-Identifier: GPL-2.0
//! Counting calls with the function profiler, and listing events of one tracepoint.

use crate::undo::{self, Undo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub const ROOT: &str = "/sys/kernel/tracing";

/// Counts calls of the named functions, on all CPUs, from `start` to `stop`.
pub struct Profiler {
    functions: Vec<String>,
    _undo: Undo,
}

impl Profiler {
    pub fn start(functions: &[&str]) -> Result<Profiler> {
        let undo = undo::later(|| {
            let _ = put("function_profile_enabled", "0");
            let _ = put("set_ftrace_filter", "");
        });
        put("function_profile_enabled", "0")?;
        put("set_ftrace_filter", "")?;
        for name in functions {
            append("set_ftrace_filter", name).with_context(|| {
                format!(
                    "this kernel has no function `{name}` to count (inlined, renamed or not traced)"
                )
            })?;
        }
        // Enabling also sets all counts to 0.
        put("function_profile_enabled", "1")?;
        Ok(Profiler {
            functions: functions.iter().map(|f| f.to_string()).collect(),
            _undo: undo,
        })
    }

    /// Hits by name; a function that was not called is there with 0.
    pub fn stop(self) -> Result<BTreeMap<String, u64>> {
        put("function_profile_enabled", "0")?;
        let mut hits: BTreeMap<String, u64> =
            self.functions.iter().map(|f| (f.clone(), 0)).collect();
        let dir = Path::new(ROOT).join("trace_stat");
        let entries =
            fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with("function") {
                continue;
            }
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            add_hits(&text, &mut hits);
        }
        Ok(hits)
    }
}

/// One CPU's table: two lines of heading, then `name hits time...`.
fn add_hits(text: &str, hits: &mut BTreeMap<String, u64>) {
    for line in text.lines().skip(2) {
        let mut cells = line.split_whitespace();
        let (Some(name), Some(count)) = (cells.next(), cells.next()) else {
            continue;
        };
        if let (Some(sum), Ok(count)) = (hits.get_mut(name), count.parse::<u64>()) {
            *sum += count;
        }
    }
}

/// Records one tracepoint in a buffer of its own, so that nobody else's tracing is disturbed.
pub struct Events {
    instance: PathBuf,
    _undo: Undo,
}

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Of the thread it happened in.
    pub tid: u32,
    /// `name=value ...` as the tracepoint prints it.
    pub text: String,
}

impl Event {
    /// The value of `key=`, decimal or 0x and hexadecimal.
    pub fn number(&self, key: &str) -> Option<i64> {
        let mut cells = self.text.split_whitespace();
        let value = cells.find_map(|c| c.strip_prefix(key)?.strip_prefix('='))?;
        match value.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        }
    }
}

impl Events {
    /// `event` as `vmscan/mm_vmscan_write_folio`; an empty `filter` takes all.
    pub fn start(event: &str, filter: &str) -> Result<Events> {
        let instance = Path::new(ROOT).join(format!("instances/vmscan-lab-{}", std::process::id()));
        fs::create_dir(&instance)
            .with_context(|| format!("cannot create {}", instance.display()))?;
        let gone = instance.clone();
        let undo = undo::later(move || {
            let _ = fs::write(gone.join("tracing_on"), "0");
            let _ = fs::write(gone.join("events/enable"), "0");
            let _ = fs::remove_dir(&gone);
        });
        let dir = instance.join("events").join(event);
        if !dir.is_dir() {
            bail!("this kernel has no tracepoint {event}");
        }
        if !filter.is_empty() {
            fs::write(dir.join("filter"), filter)
                .with_context(|| format!("cannot filter {event} by `{filter}`"))?;
        }
        fs::write(dir.join("enable"), "1").with_context(|| format!("cannot enable {event}"))?;
        Ok(Events {
            instance,
            _undo: undo,
        })
    }

    /// In the order they happened. Lost events are an error.
    pub fn stop(self) -> Result<Vec<Event>> {
        let file = |name: &str| self.instance.join(name);
        fs::write(file("tracing_on"), "0").context("cannot stop tracing")?;
        let text = fs::read_to_string(file("trace")).context("cannot read the trace")?;
        parse_trace(&text)
    }
}

fn parse_trace(text: &str) -> Result<Vec<Event>> {
    if let Some((had, written)) = text.lines().find_map(entries) {
        if had != written {
            bail!("the trace buffer held {had} of {written} events: it is too small");
        }
    }
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|l| event(l).with_context(|| format!("cannot read the trace line `{l}`")))
        .collect()
}

/// `# entries-in-buffer/entries-written: 12/12   #P:2`
fn entries(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("# entries-in-buffer/entries-written:")?;
    let (had, written) = rest.split_whitespace().next()?.split_once('/')?;
    Some((had.parse().ok()?, written.parse().ok()?))
}

/// `  comm-123   [001] d..1.  12.345678: name: key=value ...`; comm may hold anything.
fn event(line: &str) -> Option<Event> {
    let cpu = |at: usize| {
        let (nr, _) = line[at + 2..].split_once(']')?;
        (nr.len() == 3 && nr.bytes().all(|b| b.is_ascii_digit())).then_some(at)
    };
    let at = line.match_indices(" [").find_map(|(at, _)| cpu(at))?;
    let tid = line[..at].trim_end().rsplit_once('-')?.1.parse().ok()?;
    let text = line[at..].splitn(3, ": ").nth(2)?;
    Some(Event {
        tid,
        text: text.into(),
    })
}

fn put(file: &str, value: &str) -> Result<()> {
    let path = Path::new(ROOT).join(file);
    fs::write(&path, value).with_context(|| format!("cannot write `{value}` to {}", path.display()))
}

fn append(file: &str, value: &str) -> Result<()> {
    use std::io::Write;
    let path = Path::new(ROOT).join(file);
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut f| f.write_all(value.as_bytes()))
        .with_context(|| format!("cannot add `{value}` to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_tables() {
        let text = "  Function                               Hit    Time            Avg             s^2\n\
                    \x20 --------                               ---    ----            ---             ---\n\
                    \x20 submit_bio                              65    8000.1 us       123.0 us        0.0 us\n\
                    \x20 dma_iova_link                         2047    1.1 us       1.0 us        0.0 us\n\
                    \x20 other                                    9    1.1 us       1.0 us        0.0 us\n";
        let mut hits = BTreeMap::from([("submit_bio".to_string(), 1), ("dma_iova_link".into(), 0)]);
        add_hits(text, &mut hits);
        assert_eq!(hits["submit_bio"], 66);
        assert_eq!(hits["dma_iova_link"], 2047);
        assert_eq!(hits.len(), 2);
    }

    #[test]
    fn events() {
        let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:2\n#\n\
            \x20     vmscan-lab-71      [000] .....     1.234567: mm_vmscan_write_folio: folio=00000000deadbeef pfn=0x1f00 flags=RECLAIM_WB_ANON\n\
            \x20     a [b: c-d-72      [001] .....     1.234568: mm_vmscan_write_folio: folio=00000000deadbeef pfn=12 flags=x\n";
        let got = parse_trace(text).unwrap();
        assert_eq!(got[0].tid, 71);
        assert_eq!(got[0].number("pfn"), Some(0x1f00));
        assert_eq!(got[0].number("pf"), None);
        let lost = text.replace("2/2", "2/9");
        assert!(
            parse_trace(&lost)
                .unwrap_err()
                .to_string()
                .contains("2 of 9")
        );
        assert!(parse_trace("junk\n").is_err());
    }
}
