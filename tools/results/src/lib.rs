// SPDX-License-Identifier: GPL-2.0
//! The one vocabulary of the lab: the lines a guest prints, the runs the lab keeps, what is expected of them.

mod expect;
mod line;
mod run;
mod size;

pub use expect::{Expectation, check};
pub use line::{Clock, Iommu, Kind, Line, Lru, SCHEMA};
pub use run::{Meta, Run, load, samples};
pub use size::{Limit, Size, Sizes};
