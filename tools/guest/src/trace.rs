// SPDX-License-Identifier: GPL-2.0
//! Counting calls of functions, and listing events of one tracepoint.

use crate::undo::{self, Undo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

pub const ROOT: &str = "/sys/kernel/tracing";

/// A trace buffer of the lab's own: nobody else's tracing is disturbed, and nothing global changes.
struct Instance {
    path: PathBuf,
    _undo: Undo,
}

impl Instance {
    fn new() -> Result<Instance> {
        let path = Path::new(ROOT).join(format!("instances/vmscan-lab-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let gone = path.clone();
        let undo = undo::later(move || {
            let _ = fs::write(gone.join("current_tracer"), "nop");
            let _ = fs::write(gone.join("events/enable"), "0");
            if let Err(e) = fs::remove_dir(&gone) {
                eprintln!("cannot remove {}: {e}", gone.display());
            }
        });
        Ok(Instance { path, _undo: undo })
    }

    fn put(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value)
            .with_context(|| format!("cannot write `{value}` to {}", path.display()))
    }

    fn add(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(value.as_bytes()))
            .with_context(|| format!("cannot add `{value}` to {}", path.display()))
    }

    /// What was recorded, in order. Lost entries are an error.
    fn read(&self) -> Result<Vec<Event>> {
        self.put("tracing_on", "0")?;
        let text = fs::read_to_string(self.path.join("trace")).context("cannot read the trace")?;
        parse_trace(&text)
    }
}

/// Counts calls of the named functions from `start` to `stop`. (The function profiler would not say whose they are: a
/// journal commit would be among them.)
pub struct Calls {
    instance: Instance,
    functions: Vec<String>,
}

impl Calls {
    /// `kib` of buffer for each CPU: a call takes some 40 bytes.
    pub fn start(functions: &[&str], kib: usize) -> Result<Calls> {
        let instance = Instance::new()?;
        instance.put("buffer_size_kb", &kib.to_string())?;
        for name in functions {
            instance.add("set_ftrace_filter", name).with_context(|| {
                format!(
                    "this kernel has no function `{name}` to count (inlined, renamed or not traced)"
                )
            })?;
        }
        instance.put("current_tracer", "function")?;
        Ok(Calls {
            instance,
            functions: functions.iter().map(|f| f.to_string()).collect(),
        })
    }

    /// Calls that `ours` accepts, by name; a function that was not called is there with 0.
    pub fn stop(self, ours: impl Fn(&Event) -> bool) -> Result<BTreeMap<String, i64>> {
        let mut calls: BTreeMap<String, i64> =
            self.functions.iter().map(|f| (f.clone(), 0)).collect();
        for event in self.instance.read()?.iter().filter(|e| ours(e)) {
            if let Some(count) = calls.get_mut(&event.name) {
                *count += 1;
            }
        }
        Ok(calls)
    }
}

/// Records one tracepoint.
pub struct Events(Instance);

/// One recorded event, or one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name and id of the thread it happened in.
    pub comm: String,
    pub tid: u32,
    /// Of the tracepoint or the function.
    pub name: String,
    /// `key=value ...` as the tracepoint prints it; of a call, `<-` and the caller.
    pub text: String,
}

impl Event {
    /// A worker of kblockd, which hands requests to a device for a thread that had to sleep meanwhile.
    pub fn of_kblockd(&self) -> bool {
        self.comm.starts_with("kworker/") && self.comm.ends_with('H')
    }

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
        let instance = Instance::new()?;
        if !instance.path.join("events").join(event).is_dir() {
            bail!("this kernel has no tracepoint {event}");
        }
        if !filter.is_empty() {
            instance.put(&format!("events/{event}/filter"), filter)?;
        }
        instance.put(&format!("events/{event}/enable"), "1")?;
        Ok(Events(instance))
    }

    /// In the order they happened.
    pub fn stop(self) -> Result<Vec<Event>> {
        self.0.read()
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

/// `  comm-123   [001] d..1.  12.345678: name: key=value ...`, or `name <-caller`; comm may hold anything.
fn event(line: &str) -> Option<Event> {
    let cpu = |at: usize| {
        let (nr, _) = line[at + 2..].split_once(']')?;
        (nr.len() == 3 && nr.bytes().all(|b| b.is_ascii_digit())).then_some(at)
    };
    let at = line.match_indices(" [").find_map(|(at, _)| cpu(at))?;
    let (comm, tid) = line[..at].trim().rsplit_once('-')?;
    let (_, what) = line[at..].split_once(": ")?;
    let (name, text) = what.split_once(": ").or_else(|| what.split_once(' '))?;
    Some(Event {
        comm: comm.into(),
        tid: tid.parse().ok()?,
        name: name.into(),
        text: text.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events() {
        let text = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:2\n#\n\
            \x20     vmscan-lab-71      [000] .....     1.234567: mm_vmscan_write_folio: folio=00000000deadbeef pfn=0x1f00 flags=RECLAIM_WB_ANON\n\
            \x20     a [b: c-d-72      [001] .....     1.234568: mm_vmscan_write_folio: folio=00000000deadbeef pfn=12 flags=x\n";
        let got = parse_trace(text).unwrap();
        assert_eq!(got[0].tid, 71);
        assert_eq!(got[0].name, "mm_vmscan_write_folio");
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

    #[test]
    fn calls() {
        let text = "         worker0-57      [000] .....     4.179374: submit_bio <-swap_write_submit\n\
                    \x20   kworker/1:1H-22      [001] .....     4.179375: dma_iova_link <-nvme_map_data\n";
        let got = parse_trace(text).unwrap();
        assert_eq!((&*got[0].comm, got[0].tid), ("worker0", 57));
        assert_eq!(
            (&*got[0].name, &*got[0].text),
            ("submit_bio", "<-swap_write_submit")
        );
        assert!(!got[0].of_kblockd());
        assert!(got[1].of_kblockd());
    }
}
