// SPDX-License-Identifier: GPL-2.0
//! Running other programs: one log each, progress, time limits, and a clean end on Ctrl-C.

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Where things are, all absolute.
#[derive(Clone, Debug)]
pub struct Ctx {
    pub root: PathBuf,
    pub build: PathBuf,
    pub cache: PathBuf,
    pub jobs: usize,
}

impl Ctx {
    /// A new private folder under the build folder: renamed into place when whole, else removed.
    pub fn temp(&self, what: &str) -> Result<tempfile::TempDir> {
        temp_in(&self.build.join("tmp"), what)
    }
}

/// As [`Ctx::temp`], elsewhere.
pub fn temp_in(dir: &Path, what: &str) -> Result<tempfile::TempDir> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    tempfile::Builder::new()
        .prefix(&format!("{what}."))
        .tempdir_in(dir)
        .with_context(|| format!("cannot make a folder in {}", dir.display()))
}

/// The user asked to stop. `main` turns it into exit code 130.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

static STOP: AtomicBool = AtomicBool::new(false);
/// The process group of the step that runs, 0 between steps.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Call in long loops: an error once Ctrl-C or SIGTERM came.
pub fn check_interrupt() -> Result<()> {
    if STOP.load(Ordering::SeqCst) {
        bail!(Interrupted);
    }
    Ok(())
}

/// From here on Ctrl-C, SIGTERM and SIGHUP only set a flag, so that temporary folders are removed on the way out.
pub fn catch_signals() -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
        .context("cannot install the signal handlers")?;
    std::thread::spawn(move || {
        for n in signals.forever() {
            // Ctrl-C twice: the user does not want to wait for the clean-up. The step is in a group of
            // its own, out of the terminal's reach.
            if STOP.swap(true, Ordering::SeqCst) && n == SIGINT {
                if let Some(group) = Pid::from_raw(GROUP.load(Ordering::SeqCst)) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                std::process::exit(130);
            }
        }
    });
    Ok(())
}

/// What a finished step leaves.
#[derive(Debug)]
pub struct Done {
    pub log: PathBuf,
    pub code: i32,
    pub elapsed: Duration,
}

/// One named, logged run of a program.
pub struct Step<'a> {
    ctx: &'a Ctx,
    name: String,
    timeout: Option<Duration>,
    ok: Vec<i32>,
    env: Vec<(OsString, OsString)>,
    foreground: bool,
}

impl<'a> Step<'a> {
    pub fn new(ctx: &'a Ctx, name: impl Into<String>) -> Self {
        Step {
            ctx,
            name: name.into(),
            timeout: None,
            ok: vec![0],
            env: Vec::new(),
            foreground: false,
        }
    }

    /// Kills the whole process group after this long.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Exit codes that are no failure (default: 0 alone).
    pub fn ok_codes(mut self, codes: &[i32]) -> Self {
        self.ok = codes.to_vec();
        self
    }

    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Stays in our process group: for sudo, which may ask the terminal and which we could not kill.
    pub fn foreground(mut self) -> Self {
        self.foreground = true;
        self
    }

    /// Runs it; all its output goes to `build/log/<name>.log`, after a first line `$ command`.
    pub fn run(self, cmd: &mut Command) -> Result<Done> {
        check_interrupt()?;
        let dir = self.ctx.build.join("log");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let log = dir.join(format!("{}.log", self.name.replace(['/', ' '], "-")));
        let _ = fs::remove_file(&log);
        let mut out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        writeln!(out, "$ {}", shown(cmd))
            .with_context(|| format!("cannot write {}", log.display()))?;
        for (k, v) in &self.env {
            cmd.env(k, v);
        }
        cmd.stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        if !self.foreground {
            cmd.process_group(0);
        }

        let start = Instant::now();
        let mut progress = Progress::start(&self.name);
        let mut child = match cmd.spawn() {
            Ok(child) => child,
            Err(e) => {
                progress.end("FAILED", start.elapsed());
                return Err(e).with_context(|| {
                    format!(
                        "{}: cannot run {}",
                        self.name,
                        cmd.get_program().to_string_lossy()
                    )
                });
            }
        };
        if !self.foreground {
            GROUP.store(child.id() as i32, Ordering::SeqCst);
        }
        let status = loop {
            if let Some(status) = child.try_wait()? {
                GROUP.store(0, Ordering::SeqCst);
                break status;
            }
            if STOP.load(Ordering::SeqCst) {
                kill(&mut child, self.foreground);
                progress.end("interrupted", start.elapsed());
                bail!(Interrupted);
            }
            if self.timeout.is_some_and(|limit| start.elapsed() > limit) {
                kill(&mut child, self.foreground);
                progress.end("TIMED OUT", start.elapsed());
                bail!(
                    "{}: killed after {} s; its last lines:\n{}\nwhole log: {}",
                    self.name,
                    start.elapsed().as_secs(),
                    tail(&log, 20),
                    log.display()
                );
            }
            // Short at first, so that short steps stay short.
            std::thread::sleep(
                (start.elapsed() / 10).clamp(Duration::from_millis(2), Duration::from_millis(100)),
            );
            progress.tick(start.elapsed());
        };
        let elapsed = start.elapsed();
        // A child may have been hit by the same Ctrl-C before we saw it.
        if STOP.load(Ordering::SeqCst) {
            progress.end("interrupted", elapsed);
            bail!(Interrupted);
        }
        let code = code_of(status);
        if !self.ok.contains(&code) {
            progress.end("FAILED", elapsed);
            bail!(
                "{} failed ({}); its last lines:\n{}\nwhole log: {}{}",
                self.name,
                how(status),
                tail(&log, 20),
                log.display(),
                full_disk_hint(&log)
            );
        }
        progress.end("done", elapsed);
        Ok(Done { log, code, elapsed })
    }
}

/// Runs something short and gives its standard output; fails with its standard error.
pub fn capture(cmd: &mut Command) -> Result<String> {
    let out = output(cmd)?;
    if !out.status.success() {
        let said = [&out.stderr[..], &out.stdout[..]].concat();
        bail!(
            "`{}` failed ({}): {}",
            shown(cmd),
            how(out.status),
            String::from_utf8_lossy(&said).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs something short to its end, whatever its exit code. Its own process group: Ctrl-C does not cut it short.
pub fn output(cmd: &mut Command) -> Result<std::process::Output> {
    check_interrupt()?;
    let out = cmd
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .with_context(|| format!("cannot run {}", cmd.get_program().to_string_lossy()))?;
    check_interrupt()?;
    Ok(out)
}

/// The last `n` lines of a file, indented.
pub fn tail(path: &Path, n: usize) -> String {
    let mut text = Vec::new();
    if let Ok(mut f) = File::open(path) {
        let len = f.metadata().map(|m| m.len()).unwrap_or(0);
        let _ = f.seek(SeekFrom::Start(len.saturating_sub(64 * 1024)));
        let _ = f.read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..]
        .iter()
        .map(|l| format!("    {l}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A command line that can be pasted into a shell.
pub fn shown(cmd: &Command) -> String {
    std::iter::once(cmd.get_program())
        .chain(cmd.get_args())
        .map(|a| quote(&a.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub fn elapsed_text(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..10 => format!("{:.1} s", d.as_secs_f64()),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// SIGTERM, five seconds, SIGKILL; then nothing of the group is left.
fn kill(child: &mut Child, foreground: bool) {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return;
    };
    if foreground {
        // The terminal has already told it; apt must not be cut short.
        let _ = child.wait();
        return;
    }
    let _ = kill_process_group(group, Signal::TERM);
    for _ in 0..50 {
        let _ = child.try_wait();
        if test_kill_process_group(group).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

fn code_of(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(c), _) => format!("exit code {c}"),
        (None, Some(s)) => format!("killed by signal {s}"),
        _ => "ended strangely".into(),
    }
}

fn full_disk_hint(log: &Path) -> String {
    if tail(log, 200).contains("No space left on device") {
        "\nThe disk is full: free some space, or point BUILD= (or XDG_CACHE_HOME) at a larger one."
            .into()
    } else {
        String::new()
    }
}

/// A live line on a terminal; elsewhere a line at the start, one a minute, one at the end.
struct Progress {
    name: String,
    tty: bool,
    last: Duration,
}

impl Progress {
    fn start(name: &str) -> Self {
        let tty = std::io::stdout().is_terminal();
        if tty {
            print(&format!("{name} ..."));
        } else {
            print(&format!("{name} ...\n"));
        }
        Progress {
            name: name.to_string(),
            tty,
            last: Duration::ZERO,
        }
    }

    fn tick(&mut self, elapsed: Duration) {
        let every = if self.tty { 1 } else { 60 };
        if elapsed < self.last + Duration::from_secs(every) {
            return;
        }
        self.last = elapsed;
        let text = elapsed_text(Duration::from_secs(elapsed.as_secs()));
        if self.tty {
            print(&format!("\r\x1b[K{} ... {text}", self.name));
        } else {
            print(&format!("{} ... {text} so far\n", self.name));
        }
    }

    fn end(&mut self, word: &str, elapsed: Duration) {
        let back = if self.tty { "\r\x1b[K" } else { "" };
        print(&format!(
            "{back}{} ... {word}, {}\n",
            self.name,
            elapsed_text(elapsed)
        ));
    }
}

/// To standard output, even when nobody reads it any more (`make kunit | head`).
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// One line to the user.
pub fn say(text: impl AsRef<str>) {
    print(&format!("{}\n", text.as_ref()));
}
