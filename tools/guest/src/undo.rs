// SPDX-License-Identifier: GPL-2.0
//! What the lab changes on a machine, and how each change is taken back: when its guard goes, and on a signal or a panic.

use anyhow::{Context, Result};
use libc::{SIGHUP, SIGINT, SIGTERM, c_int, sigset_t};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Action = Box<dyn FnOnce() + Send>;

/// In the order in which things were changed; they are taken back from the end.
static STACK: Mutex<Vec<(u64, Action)>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Set by the thread that takes signals, before it takes everything back.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A change that is taken back when this goes.
#[must_use = "dropped at once, it takes the change back at once"]
#[derive(Debug)]
pub struct Undo(u64);

/// `action` must be safe to run at any moment from another thread, and must not panic.
pub fn later(action: impl FnOnce() + Send + 'static) -> Undo {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut stack = stack();
    while CLOSED.load(Ordering::SeqCst) {
        // A signal came: the process ends, and nothing more may be changed.
        drop(stack);
        std::thread::park();
        stack = self::stack();
    }
    stack.push((id, Box::new(action)));
    Undo(id)
}

impl Undo {
    /// The change was taken back in an orderly way; nothing is left to do.
    pub fn forget(self) {
        take(self.0);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The lock is not held while the action runs: it may take long, and a signal must not wait for it.
        if let Some(action) = take(self.0) {
            action();
        }
    }
}

/// Takes everything back, newest first.
pub fn all() {
    loop {
        let last = stack().pop();
        match last {
            Some((_, action)) => action(),
            None => return,
        }
    }
}

/// From here on SIGINT, SIGTERM, SIGHUP and a panic take everything back before the process goes. Call it before there
/// are other threads: they inherit that these signals are for the one that waits for them.
pub fn on_signals() -> Result<()> {
    let signals = block([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let signal = wait(&signals);
            eprintln!("signal {signal}: taking back what was changed");
            CLOSED.store(true, Ordering::SeqCst);
            all();
            std::process::exit(128 + signal);
        })
        .context("cannot start the thread that waits for signals")?;
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        all();
    }));
    Ok(())
}

/// Plain sigwait: a guest's kernel has no sockets, which signal crates wake themselves with.
fn block<const N: usize>(signals: [c_int; N]) -> Result<sigset_t> {
    // SAFETY: a set is plain bits, made empty before it is used; all pointers are to locals.
    let (set, rc) = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        let rc = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        (set, rc)
    };
    if rc != 0 {
        return Err(std::io::Error::from_raw_os_error(rc)).context("cannot block signals");
    }
    Ok(set)
}

fn wait(set: &sigset_t) -> c_int {
    let mut signal = 0;
    // SAFETY: both pointers are to values that outlive the call.
    while unsafe { libc::sigwait(set, &mut signal) } != 0 {}
    signal
}

fn take(id: u64) -> Option<Action> {
    let mut stack = stack();
    let at = stack.iter().position(|(i, _)| *i == id)?;
    Some(stack.remove(at).1)
}

fn stack() -> MutexGuard<'static, Vec<(u64, Action)>> {
    STACK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    // One test: the stack is the process's.
    #[test]
    fn newest_first_and_each_once() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |n: i32| {
            let seen = seen.clone();
            later(move || seen.lock().unwrap().push(n))
        };
        let one = note(1);
        let two = note(2);
        let three = note(3);
        two.forget();
        drop(three);
        assert_eq!(*seen.lock().unwrap(), [3]);
        let _four = note(4);
        all();
        assert_eq!(*seen.lock().unwrap(), [3, 4, 1]);
        drop(one);
        assert_eq!(*seen.lock().unwrap(), [3, 4, 1]);
    }

    const FILE: &str = "LAB_TEST_UNDO";

    /// Runs in a process of its own, started by the test below.
    #[test]
    #[ignore = "only as a child of a_signal_takes_everything_back"]
    fn child_that_gets_a_signal() {
        let Some(file) = std::env::var_os(FILE) else {
            return;
        };
        std::fs::write(&file, "changed").unwrap();
        on_signals().unwrap();
        let _undo = later(move || std::fs::remove_file(&file).unwrap());
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::TERM).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    #[test]
    fn a_signal_takes_everything_back() {
        use std::os::unix::process::CommandExt;
        let file = std::env::temp_dir().join(format!("lab-undo-{}", std::process::id()));
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args([
                "--ignored",
                "--exact",
                "undo::tests::child_that_gets_a_signal",
            ])
            .env(FILE, &file);
        // SAFETY: sets a mask and allocates nothing. The test runner's own thread would take the signal else.
        unsafe {
            child.pre_exec(|| block([SIGTERM]).map(drop).map_err(std::io::Error::other));
        }
        let output = child.output().unwrap();
        assert_eq!(output.status.code(), Some(128 + SIGTERM), "{output:?}");
        assert!(!file.exists());
    }
}
