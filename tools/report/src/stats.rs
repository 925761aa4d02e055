// SPDX-License-Identifier: GPL-2.0
//! Comparing two arms. The boot is the sampling unit: what a boot reports often is one value of it, the median.

use statrs::statistics::{Data, Median};

/// What is asked of an interval.
pub const CONFIDENCE: f64 = 0.95;
/// With less, nothing is claimed of a difference.
const LEAST_CONFIDENCE: f64 = 0.9;

/// A boot's value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boot {
    pub round: u32,
    /// Its place among the boots of the plan.
    pub number: u32,
    pub value: f64,
}

/// What may be said about a difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A change by more than the noise and the drift, and the interval, if there is one, agrees.
    Changed,
    /// No difference of a size that would be claimed.
    Unchanged,
    /// Larger than the noise, but the interval has no change in it.
    Unsure,
    /// A change, but not clear of what the first arm differs from itself.
    Drifted,
    /// The first arm booted once: whether it drifts is not known.
    DriftUnknown,
    /// Fewer boots than could rule out chance.
    TooFew,
}

/// `b` against `a`.
#[derive(Clone, Debug)]
pub struct Compare {
    pub boots: (usize, usize),
    pub medians: (f64, f64),
    /// As shares: -0.1 is a tenth less.
    pub change: f64,
    pub interval: (f64, f64),
    /// Of the interval; less than [`CONFIDENCE`] when there are too few boots for more.
    pub confidence: f64,
    /// Mann-Whitney, exact, two-sided.
    pub p: f64,
    /// How far apart the boots of `a` are: also what creeps from boot to boot is drift.
    pub drift: Option<f64>,
    /// Of each boot of `b` against the mean of the boots of `a` around it: (round, a, b, change).
    pub rounds: Vec<(u32, f64, f64, f64)>,
    pub outcome: Outcome,
}

pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| Data::new(values.to_vec()).median())
}

/// Nothing when an arm has no boot or the first has no positive value.
pub fn compare(a: &[Boot], b: &[Boot], noise: f64) -> Option<Compare> {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_by_key(|x| x.number);
    b.sort_by_key(|x| x.number);
    let values = |boots: &[Boot]| boots.iter().map(|x| x.value).collect::<Vec<f64>>();
    let (va, vb) = (values(&a), values(&b));
    if va.iter().any(|&v| v <= 0.0) {
        return None;
    }
    let medians = (median(&va)?, median(&vb)?);
    let change = medians.1 / medians.0 - 1.0;
    let (interval, confidence) = interval(&va, &vb);
    let least = va.iter().copied().min_by(f64::total_cmp)?;
    let most = va.iter().copied().max_by(f64::total_cmp)?;
    let drift = (va.len() > 1).then(|| most / least - 1.0);
    // What A does by itself cannot be told from an effect.
    let floor = noise.max(drift.unwrap_or(0.0));
    let within = |size: f64| interval.0 >= -size && interval.1 <= size;
    let outcome = match drift {
        None => Outcome::DriftUnknown,
        // First: a control must not hold because it was booted too seldom to fail.
        Some(_) if confidence < LEAST_CONFIDENCE => Outcome::TooFew,
        // No difference is a claim too: the whole interval must lie within the noise.
        Some(_) if within(noise) => Outcome::Unchanged,
        Some(_) if interval.0 <= 0.0 && interval.1 >= 0.0 => Outcome::Unsure,
        Some(_) if change.abs() <= noise => Outcome::Unsure,
        Some(_) if interval.0 <= floor && interval.1 >= -floor => Outcome::Drifted,
        Some(_) => Outcome::Changed,
    };
    Some(Compare {
        boots: (va.len(), vb.len()),
        medians,
        change,
        interval,
        confidence,
        p: mann_whitney(&va, &vb),
        drift,
        rounds: b.iter().filter_map(|x| around(&a, x)).collect(),
        outcome,
    })
}

fn around(a: &[Boot], b: &Boot) -> Option<(u32, f64, f64, f64)> {
    let before = a.iter().rfind(|x| x.number < b.number);
    let after = a.iter().find(|x| x.number > b.number);
    let near: Vec<f64> = before.into_iter().chain(after).map(|x| x.value).collect();
    let mean = near.iter().sum::<f64>() / near.len() as f64;
    (!near.is_empty()).then(|| (b.round, mean, b.value, b.value / mean - 1.0))
}

/// The shares of all pairs, cut so far as the test of Mann and Whitney allows: an exact interval without any assumption
/// on how boots scatter. With too few boots it is the whole range, and the confidence says so.
fn interval(a: &[f64], b: &[f64]) -> ((f64, f64), f64) {
    let mut pairs: Vec<f64> = b
        .iter()
        .flat_map(|y| a.iter().map(move |x| y / x - 1.0))
        .collect();
    pairs.sort_by(f64::total_cmp);
    let ways = ways(a.len(), b.len());
    let all: f64 = ways.iter().sum();
    let confidence = |cut: usize| 1.0 - 2.0 * ways[..=cut].iter().sum::<f64>() / all;
    let cut = (1..pairs.len().div_ceil(2))
        .take_while(|&c| confidence(c) >= CONFIDENCE)
        .last()
        .unwrap_or(0);
    (
        (pairs[cut], pairs[pairs.len() - 1 - cut]),
        confidence(cut).max(0.0),
    )
}

/// Two-sided. Pairs that are equal count half, which errs to the side of no difference.
fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let above = |x: &f64, y: &f64| match x.total_cmp(y) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    };
    let u: f64 = b
        .iter()
        .flat_map(|y| a.iter().map(move |x| above(y, x)))
        .sum();
    let u = u.min((a.len() * b.len()) as f64 - u).ceil() as usize;
    let ways = ways(a.len(), b.len());
    let p = 2.0 * ways[..=u].iter().sum::<f64>() / ways.iter().sum::<f64>();
    p.min(1.0)
}

/// In how many orders of `m` and `n` different values exactly `u` pairs have the first above the second, for each `u`.
/// statrs has no Mann-Whitney for the compiler we support.
fn ways(m: usize, n: usize) -> Vec<f64> {
    if m == 0 || n == 0 {
        return vec![1.0];
    }
    // The largest value is either one of the first, above all of the second, or one of the second.
    let (first, second) = (ways(m - 1, n), ways(m, n - 1));
    let at = |list: &[f64], u: Option<usize>| u.and_then(|u| list.get(u)).copied().unwrap_or(0.0);
    (0..=m * n)
        .map(|u| at(&first, u.checked_sub(n)) + at(&second, Some(u)))
        .collect()
}

/// How many boots of the second arm an interval at [`CONFIDENCE`] takes, with so many of the first.
pub fn needed(first: usize) -> Option<usize> {
    (1..=12).find(|&n| {
        let ways = ways(first, n);
        1.0 - 2.0 / ways.iter().sum::<f64>() >= CONFIDENCE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(first: u32, step: u32, values: &[f64]) -> Vec<Boot> {
        values
            .iter()
            .zip(0..)
            .map(|(&value, i)| Boot {
                round: i,
                number: first + step * i,
                value,
            })
            .collect()
    }

    #[test]
    fn mann_whitney_as_in_the_tables() {
        for (a, b, p) in [
            (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..], 0.1),
            (&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2.0 / 70.0),
            (
                &[1.0, 2.0, 3.0, 4.0, 6.0],
                &[5.0, 7.0, 8.0, 9.0, 10.0],
                4.0 / 252.0,
            ),
            (&[1.0], &[2.0], 1.0),
            (&[1.0, 1.0], &[1.0, 1.0], 1.0),
        ] {
            let got = mann_whitney(a, b);
            assert!((got - p).abs() < 1e-9, "{a:?} {b:?}: {got}");
            assert_eq!(got, mann_whitney(b, a));
        }
    }

    #[test]
    fn every_order_is_counted_once() {
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(ways(6, 3).iter().sum::<f64>(), 84.0);
    }

    #[test]
    fn how_many_boots_are_enough() {
        assert_eq!(needed(4), Some(4));
        assert_eq!(needed(7), Some(3));
        assert_eq!(needed(1), None);
    }

    #[test]
    fn one_boot_of_an_arm_claims_nothing() {
        let a = boots(0, 2, &[100.0, 100.2, 100.1]);
        let c = compare(&a, &boots(1, 2, &[88.0]), 0.005).unwrap();
        assert_eq!(c.outcome, Outcome::TooFew);
    }

    #[test]
    fn a_clear_difference() {
        let a = boots(0, 2, &[100.0, 100.2, 100.1, 100.0]);
        let b = boots(1, 2, &[88.0, 88.2, 88.1]);
        let c = compare(&a, &b, 0.005).unwrap();
        assert_eq!(c.outcome, Outcome::Changed);
        assert!((c.change + 0.12).abs() < 0.001, "{c:?}");
        assert!(c.interval.0 <= c.change && c.change <= c.interval.1);
        assert!((c.confidence - (1.0 - 2.0 / 35.0)).abs() < 1e-9);
        assert!((c.drift.unwrap() - 0.002).abs() < 1e-3);
        assert_eq!(c.rounds.len(), 3);
        assert!((c.rounds[0].1 - 100.1).abs() < 1e-9);
    }

    #[test]
    fn with_enough_boots_the_interval_is_cut_to_the_confidence_asked_for() {
        let a = boots(0, 2, &[100.0, 101.0, 99.0, 100.5, 99.5, 130.0]);
        let b = boots(1, 2, &[90.0, 91.0, 89.0, 90.5, 89.5, 60.0]);
        let c = compare(&a, &b, 0.5).unwrap();
        assert!(c.confidence >= CONFIDENCE);
        // Not the range of all pairs, which the two stray boots decide.
        assert!(c.interval.0 > -0.42 && c.interval.1 < -0.07, "{c:?}");
    }

    #[test]
    fn what_is_not_claimed() {
        let b = boots(1, 2, &[88.0]);
        let of = |a: &[f64], b: &[Boot]| compare(&boots(0, 2, a), b, 0.005).unwrap().outcome;
        assert_eq!(of(&[100.0, 101.0], &b), Outcome::TooFew);
        assert_eq!(of(&[100.0], &b), Outcome::DriftUnknown);
        assert_eq!(of(&[100.0, 100.1], &boots(1, 2, &[100.3])), Outcome::TooFew);
        assert_eq!(
            of(&[100.0, 100.1, 99.9], &boots(1, 2, &[99.8, 100.3])),
            Outcome::TooFew
        );
        let four = [100.0, 100.1, 100.2, 100.1];
        assert_eq!(
            of(&four, &boots(1, 2, &[100.3, 100.2, 100.1])),
            Outcome::Unchanged
        );
        // Medians that agree are no agreement of what scatters.
        assert_eq!(
            of(&four, &boots(1, 2, &[97.0, 100.1, 103.0])),
            Outcome::Unsure
        );
        // A change must be clear of what A does by itself.
        let creeps = [100.0, 100.4, 100.8, 101.2];
        assert_eq!(
            of(&creeps, &boots(1, 2, &[99.2, 99.3, 99.1])),
            Outcome::Drifted
        );
        assert_eq!(
            of(&creeps, &boots(1, 2, &[88.0, 88.1, 88.2])),
            Outcome::Changed
        );
        assert_eq!(
            of(&[100.0, 100.4, 100.2], &boots(1, 2, &[99.0, 102.0, 101.5])),
            Outcome::Unsure
        );
        assert!(compare(&boots(0, 1, &[1.0]), &[], 0.005).is_none());
        assert!(compare(&boots(0, 1, &[0.0]), &b, 0.005).is_none());
    }
}
