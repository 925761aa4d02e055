// SPDX-License-Identifier: GPL-2.0
//! What the memory is made of: base pages, THPs, or large folios of a smaller size (mTHP).

use crate::lab::Lab;
use crate::mem::{Advice, PAGE, PMD};
use crate::pagemap::{self, Page};
use crate::undo::Undo;
use crate::vm::{self, VmStat};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::ops::Range;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    Base,
    Thp,
    /// Of so many KiB.
    Mthp(usize),
}

const SYSFS: &str = "/sys/kernel/mm/transparent_hugepage";
/// From 16 KiB: anonymous folios have at least four pages. 2 MiB is a THP.
const MTHP: std::ops::RangeInclusive<usize> = 16..=1024;

impl Pages {
    pub fn parse(text: &str) -> Result<Pages, String> {
        match text {
            "base" => return Ok(Pages::Base),
            "thp" => return Ok(Pages::Thp),
            _ => {}
        }
        let kib = text.strip_suffix('k').and_then(|n| n.parse::<usize>().ok());
        match kib {
            Some(n) if n.is_power_of_two() && MTHP.contains(&n) => Ok(Pages::Mthp(n)),
            _ => Err("want base, thp, 16k, 32k, 64k, 128k, 256k, 512k or 1024k".into()),
        }
    }

    /// Pages of one folio.
    pub fn folio(self) -> usize {
        match self {
            Pages::Base => 1,
            Pages::Thp => PMD / PAGE,
            Pages::Mthp(kib) => kib * 1024 / PAGE,
        }
    }

    /// How many folios of this size were split since boot.
    pub fn splits(self) -> Result<i64> {
        match self {
            Pages::Base | Pages::Thp => VmStat::now()?.get("thp_split_page"),
            Pages::Mthp(kib) => {
                vm::number(Path::new(&format!("{SYSFS}/hugepages-{kib}kB/stats/split")))
            }
        }
    }

    pub fn advice(self) -> Advice {
        match self {
            Pages::Base => Advice::NoHugePage,
            Pages::Thp | Pages::Mthp(_) => Advice::HugePage,
        }
    }

    /// Makes a first touch give folios of this size, until the guards go. THPs are made by MADV_COLLAPSE instead.
    pub fn enable(self, lab: &Lab) -> Result<Vec<Undo>> {
        let Pages::Mthp(kib) = self else {
            return Ok(Vec::new());
        };
        let file = |kib| format!("{SYSFS}/hugepages-{kib}kB/enabled");
        // The largest size that is enabled wins.
        Ok(vec![
            lab.set_for_now(&file(PMD / 1024), "never")?,
            lab.set_for_now(&file(kib), "madvise")?,
        ])
    }

    /// Refuses unless all of `span` is resident and consists of such folios.
    pub fn check(self, span: Range<usize>) -> Result<()> {
        let pages = pagemap::of(None, span.clone())?;
        let kib = pagemap::anon_huge_kib(None, span.clone())? as usize;
        match self {
            Pages::Base if kib != 0 => bail!("{kib} KiB are THPs in spite of MADV_NOHUGEPAGE"),
            Pages::Base => {}
            Pages::Mthp(_) if kib != 0 => bail!("{kib} KiB are THPs of 2 MiB"),
            Pages::Mthp(_) => {
                pagemap::are_thps(&pages, self.folio()).context("after the first touch")?;
            }
            Pages::Thp => {
                pagemap::are_thps(&pages, self.folio()).context("after MADV_COLLAPSE")?;
                if kib * 1024 != span.len() {
                    bail!("{kib} KiB of {} are mapped as THPs", span.len() / 1024);
                }
            }
        }
        let present = pagemap::count(&pages).present;
        if present != pages.len() {
            bail!(
                "{present} pages of {} are resident after filling",
                pages.len()
            );
        }
        Ok(())
    }

    /// Refuses unless the second half of each folio is unmapped, and the first still is a part of a large folio.
    pub fn check_halves(self, span: Range<usize>) -> Result<()> {
        let half = self.folio() / 2;
        let pages = pagemap::of(None, span)?;
        let (mut kept, mut given_up): (Vec<Page>, Vec<Page>) = Default::default();
        for folio in pages.chunks(self.folio()) {
            kept.extend(&folio[..half]);
            given_up.extend(&folio[half..]);
        }
        let left = given_up.len() - pagemap::count(&given_up).absent;
        if left != 0 {
            bail!("{left} pages are still there after MADV_DONTNEED");
        }
        pagemap::are_thps(&kept, half).context("a folio was split by MADV_DONTNEED already")
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pages::Base => f.write_str("base"),
            Pages::Thp => f.write_str("thp"),
            Pages::Mthp(kib) => write!(f, "{kib}k"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for text in ["base", "thp", "16k", "64k", "1024k"] {
            assert_eq!(Pages::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "k", "8k", "48k", "2048k", "64", "64K", "-64k"] {
            assert!(Pages::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Pages::Mthp(64).folio(), 16);
        assert_eq!(Pages::Thp.folio(), 512);
    }
}
