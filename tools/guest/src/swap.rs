// SPDX-License-Identifier: GPL-2.0
//! Swap areas, made and taken away by us: there is no mkswap in a guest.

use crate::clock;
use crate::mem::PAGE;
use crate::undo::{self, Undo};
use anyhow::{Context, Result, bail};
use rustix::fs::FallocateFlags;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Error;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const ZRAM: &str = "/sys/block/zram0";

pub struct SwapArea {
    path: PathBuf,
    undo: Undo,
    take_away: fn(&Path) -> Result<()>,
}

impl SwapArea {
    /// A file in `dir`, with all its blocks: a swap file may have no holes.
    pub fn file(dir: &Path, mib: u64) -> Result<SwapArea> {
        let path = dir.join(format!("vmscan-lab-{}.swap", std::process::id()));
        let at = || path.display().to_string();
        let file = File::create_new(&path).with_context(|| format!("cannot create {}", at()))?;
        let area = SwapArea::taken_away_by(&path, |path| {
            off(path)?;
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
        });
        private(&file)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, mib << 20)
            .with_context(|| format!("no room for {mib} MiB of swap in {}", at()))?;
        area.start(&file, mib)?;
        // Else the journal commits its blocks while something is measured.
        rustix::fs::syncfs(&file).with_context(|| format!("cannot sync {}", at()))?;
        Ok(area)
    }

    /// The device zram0, which must be unused.
    pub fn zram(mib: u64, algorithm: &str) -> Result<SwapArea> {
        let size = zram_read("disksize").context("no zram0: build or load zram")?;
        if size != "0" {
            bail!("zram0 is in use ({size} bytes): `echo 1 > {ZRAM}/reset` if it may go");
        }
        let path = PathBuf::from("/dev/zram0");
        let area = SwapArea::taken_away_by(&path, |path| {
            off(path)?;
            zram_write("reset", "1")
        });
        zram_write("comp_algorithm", algorithm)?;
        zram_write("disksize", &(mib << 20).to_string())?;
        let device = File::options()
            .write(true)
            .open(&path)
            .context("cannot open /dev/zram0")?;
        area.start(&device, mib)?;
        Ok(area)
    }

    fn taken_away_by(path: &Path, take_away: fn(&Path) -> Result<()>) -> SwapArea {
        let of = path.to_path_buf();
        let undo = undo::later(move || {
            if let Err(e) = take_away(&of) {
                eprintln!("{e:#}");
            }
        });
        SwapArea {
            path: path.to_path_buf(),
            undo,
            take_away,
        }
    }

    fn start(&self, file: &File, mib: u64) -> Result<()> {
        let at = self.path.display();
        file.write_all_at(&header(mib), 0)
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write a swap header to {at}"))?;
        let name = c_path(&self.path);
        // SAFETY: a C string that outlives the call.
        if unsafe { libc::swapon(name.as_ptr(), 0) } != 0 {
            return Err(Error::last_os_error()).with_context(|| format!("cannot swap on {at}"));
        }
        Ok(())
    }

    /// Slots in use, by /proc/swaps.
    pub fn used_pages(&self) -> Result<u64> {
        let text = fs::read_to_string("/proc/swaps").context("cannot read /proc/swaps")?;
        let kib = used_kib(&text, &self.path)
            .with_context(|| format!("/proc/swaps has no {}", self.path.display()))?;
        Ok(kib * 1024 / PAGE as u64)
    }

    /// The workload has freed everything, so nothing may be left here.
    pub fn finish(self) -> Result<()> {
        // Slots of an exited process, or of folios that were locked, are freed a moment later.
        let mut used = self.used_pages()?;
        for _ in 0..200 {
            if used == 0 {
                break;
            }
            clock::nap(10);
            used = self.used_pages()?;
        }
        if used != 0 {
            bail!(
                "{used} pages of {} are still in use after the workload freed all it had: swap slots leak",
                self.path.display()
            );
        }
        (self.take_away)(&self.path)?;
        self.undo.forget();
        Ok(())
    }
}

/// Areas in use on this machine.
pub fn in_use() -> Result<Vec<String>> {
    let text = fs::read_to_string("/proc/swaps").context("cannot read /proc/swaps")?;
    let names = text
        .lines()
        .skip(1)
        .filter_map(|l| l.split_whitespace().next());
    Ok(names.map(str::to_string).collect())
}

/// Not active is fine: that is what was wanted.
fn off(path: &Path) -> Result<()> {
    let name = c_path(path);
    // SAFETY: a C string that outlives the call.
    if unsafe { libc::swapoff(name.as_ptr()) } != 0 {
        let e = Error::last_os_error();
        if e.raw_os_error() != Some(libc::EINVAL) {
            return Err(e)
                .with_context(|| format!("cannot swap off {}: do it by hand", path.display()));
        }
    }
    Ok(())
}

fn private(file: &File) -> Result<()> {
    rustix::fs::fchmod(file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .context("cannot make the swap file private")
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("paths come from the kernel or from argv")
}

/// The first page of an area of `mib` (union swap_header in the kernel): version 1, its last page, no bad pages.
fn header(mib: u64) -> Vec<u8> {
    let last_page = ((mib << 20) / PAGE as u64 - 1) as u32;
    let mut page = vec![0; PAGE];
    page[1024..1028].copy_from_slice(&1u32.to_ne_bytes());
    page[1028..1032].copy_from_slice(&last_page.to_ne_bytes());
    page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    page
}

fn used_kib(swaps: &str, path: &Path) -> Option<u64> {
    let wanted = path.to_str()?;
    let line = swaps
        .lines()
        .find(|l| l.split_whitespace().next() == Some(wanted))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

fn zram_read(file: &str) -> Result<String> {
    let path = format!("{ZRAM}/{file}");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_string())
}

fn zram_write(file: &str, value: &str) -> Result<()> {
    let path = format!("{ZRAM}/{file}");
    fs::write(&path, value).with_context(|| format!("cannot write `{value}` to {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_what_mkswap_writes() {
        let page = header(64);
        assert_eq!(page.len(), PAGE);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(page[1024..1028], 1u32.to_ne_bytes());
        assert_eq!(page[1028..1032], 16383u32.to_ne_bytes());
        assert!(page[1032..4086].iter().all(|b| *b == 0));
    }

    #[test]
    fn proc_swaps() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /mnt/vmscan-lab-70.swap                 file\t\t65532\t\t8192\t\t-1\n";
        assert_eq!(
            used_kib(text, Path::new("/mnt/vmscan-lab-70.swap")),
            Some(8192)
        );
        assert_eq!(used_kib(text, Path::new("/dev/zram0")), None);
    }
}
