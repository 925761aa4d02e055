// SPDX-License-Identifier: GPL-2.0
//! The process whose memory is reclaimed, and its parent's end of the conversation: a line each way at a time.

use crate::mem::{self, Advice, PMD, Region, WORDS_PER_PAGE};
use crate::workloads::cpus;
use crate::{cgroup, clock, shuffle};
use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const SEED: u64 = 0x7ead;

#[derive(clap::Args)]
pub struct Reader {
    #[arg(long)]
    pub cgroup: PathBuf,
    #[arg(long)]
    pub base_pages: bool,
    #[arg(long)]
    pub mib: u64,
    #[arg(long)]
    pub window_ms: u64,
    #[arg(long)]
    pub hot_every: usize,
    #[arg(long)]
    pub cpu: usize,
}

impl Reader {
    /// In the child.
    pub fn run(self) -> Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask for a signal")?;
        cpus::pin(self.cpu)?;
        cgroup::enter(&self.cgroup, 0)?;
        let orders = orders();
        let mut region = Region::new((self.mib as usize) << 20, PMD)?;
        region.advise(match self.base_pages {
            true => Advice::NoHugePage,
            false => Advice::HugePage,
        })?;
        self.fill(&mut region);
        let aged = self.serve(&region, || true);
        say(&format!("filled {} {aged}", region.span().start))?;
        expect(&orders, "go")?;
        say("reading")?;
        let mut reclaimed = false;
        let hot = self.serve(&region, || {
            reclaimed |= orders.try_recv().is_ok_and(|o| o == "reclaimed");
            reclaimed
        });
        say(&format!("read {hot}"))?;
        expect(&orders, "verify")?;
        // Reading page by page, an emulated disk would take minutes.
        region.advise(Advice::WillNeed)?;
        let words = region.verify(SEED)?;
        say(&format!("verified {words}"))
    }

    fn fill(&self, region: &mut Region) {
        let chunk = PMD / 8;
        for nr in shuffle::order(region.len() / chunk, SEED) {
            let first = nr * chunk;
            mem::fill(&mut region[first..first + chunk], SEED, first as u64);
        }
    }

    /// Reads a word of each hot page, over and over, for a window and until `over`; how often within the window.
    fn serve(&self, region: &Region, mut over: impl FnMut() -> bool) -> u64 {
        let end = clock::monotonic_ns() + self.window_ms * 1_000_000;
        let (mut lookups, mut in_window) = (0, None);
        loop {
            for chunk in region.chunks(PMD / 8).step_by(self.hot_every) {
                mem::touch(chunk);
                lookups += (chunk.len() / WORDS_PER_PAGE) as u64;
            }
            if clock::monotonic_ns() < end {
                continue;
            }
            let count = *in_window.get_or_insert(lookups);
            if over() {
                return count;
            }
        }
    }
}

/// Lines from the parent. When it has gone, so has the channel.
fn orders() -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

fn expect(orders: &Receiver<String>, want: &str) -> Result<()> {
    let got = orders.recv().context("the workload has gone")?;
    if got != want {
        bail!("the workload says `{got}`, expected `{want}`");
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("the workload has gone")
}

/// The parent's end.
pub struct Reading {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    span: Range<usize>,
}

impl Reading {
    /// Returns when the memory is filled and the first window is over, with the words read in it.
    pub fn start(reader: &Reader) -> Result<(Reading, u64)> {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["child", "hotcold-reader", "--cgroup"])
            .arg(&reader.cgroup)
            .args(["--mib", &reader.mib.to_string()])
            .args(["--window-ms", &reader.window_ms.to_string()])
            .args(["--hot-every", &reader.hot_every.to_string()])
            .args(["--cpu", &reader.cpu.to_string()])
            .args(reader.base_pages.then_some("--base-pages"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the reader")?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let mut reading = Reading {
            child,
            orders: orders.context("no pipe to the reader")?,
            answers: BufReader::new(answers.context("no pipe from the reader")?),
            span: 0..0,
        };
        let numbers = reading.hear("filled")?;
        let [start, aged] = numbers[..] else {
            bail!("the reader says {numbers:?}, expected an address and a count");
        };
        let start = start as usize;
        reading.span = start..start + ((reader.mib as usize) << 20);
        Ok((reading, aged))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The second window starts.
    pub fn go(&mut self) -> Result<()> {
        self.tell("go")?;
        self.hear("reading").map(drop)
    }

    /// Reclaim is over; waits for the end of the window. Words read in it.
    pub fn end_of_window(&mut self) -> Result<u64> {
        self.tell("reclaimed")?;
        self.one("read")
    }

    /// All words compared and the process gone.
    pub fn verify(mut self) -> Result<u64> {
        self.tell("verify")?;
        let words = self.one("verified")?;
        let status = self.child.wait().context("cannot wait for the reader")?;
        if !status.success() {
            bail!("the reader ended with {status}");
        }
        Ok(words)
    }

    fn tell(&mut self, order: &str) -> Result<()> {
        writeln!(self.orders, "{order}").with_context(|| self.gone())
    }

    fn one(&mut self, what: &str) -> Result<u64> {
        match self.hear(what)?[..] {
            [n] => Ok(n),
            _ => bail!("the reader does not say how much it {what}"),
        }
    }

    /// The numbers after `what`.
    fn hear(&mut self, what: &str) -> Result<Vec<u64>> {
        let mut line = String::new();
        let n = self.answers.read_line(&mut line);
        if n.context("cannot hear the reader")? == 0 {
            bail!("{}", self.gone());
        }
        numbers_after(&line, what)
            .with_context(|| format!("the reader says `{}`, expected `{what}`", line.trim()))
    }

    fn gone(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("the reader ended early, with {status}; its reason is above"),
            Err(e) => format!("the reader ended early: {e}"),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // After a failure it may still read; after `verify` it has gone and this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers_after(line: &str, what: &str) -> Option<Vec<u64>> {
    let mut words = line.split_whitespace();
    if words.next()? != what {
        return None;
    }
    words.map(|w| w.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(
            numbers_after("filled 4096 7\n", "filled"),
            Some(vec![4096, 7])
        );
        assert_eq!(numbers_after("reading\n", "reading"), Some(vec![]));
        assert_eq!(numbers_after("read x\n", "read"), None);
        assert_eq!(numbers_after("", "read"), None);
    }

    #[test]
    fn a_window_is_counted_in_whole_passes() {
        let mut region = Region::new(4 * PMD, PMD).unwrap();
        region.advise(Advice::NoHugePage).unwrap();
        let reader = Reader {
            cgroup: "/".into(),
            base_pages: true,
            mib: 8,
            window_ms: 1,
            hot_every: 4,
            cpu: 0,
        };
        reader.fill(&mut region);
        let mut asked = 0;
        let lookups = reader.serve(&region, || {
            asked += 1;
            asked == 3
        });
        assert!(lookups > 0 && lookups % 512 == 0, "{lookups}");
        assert_eq!(region.verify(SEED).unwrap(), (4 * PMD / 8) as u64);
    }
}
