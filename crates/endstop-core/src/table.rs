//! Typed indices, the tables that they index, and bits.
//!
//! An index is made by the program that it indexes, so one that is out of range is a bug: it panics, and
//! never reads a default that would decide something. An index from outside (a saved run) is checked before.

use alloc::boxed::Box;
use core::marker::PhantomData;

use serde::{Deserialize, Serialize};

/// A place in a [`Table`], of a type that only this table takes.
pub(crate) trait Index: Copy + Eq + Ord {
    fn new(place: usize) -> Self;
    fn place(self) -> usize;
}

macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(usize);

        impl Index for $name {
            #[inline]
            fn new(place: usize) -> Self {
                Self(place)
            }

            #[inline]
            fn place(self) -> usize {
                self.0
            }
        }
    )*};
}

indices! {
    /// A rule of the policy.
    RuleIx;
    /// A number of the dense gauge array.
    GaugeIx;
    /// A comparison of a gauge; its bit has the same place.
    CompareIx;
    /// A fact that some condition names.
    FactIx;
    /// An operator over time.
    OpIx;
    /// A tool whose calls some condition counts.
    ToolIx;
    /// A number that the user's program reports.
    NumberIx;
    /// A probe that some condition compares.
    ProbeIx;
    /// A bit of the evaluation.
    Slot;
}

/// Rows of one kind, by index. Its length never changes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent, bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub(crate) struct Table<I, T> {
    rows: Box<[T]>,
    #[serde(skip)]
    index: PhantomData<I>,
}

impl<I, T: Clone> Clone for Table<I, T> {
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), index: PhantomData }
    }

    fn clone_from(&mut self, other: &Self) {
        self.rows.clone_from(&other.rows);
    }
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self { rows: Box::default(), index: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<R: IntoIterator<Item = T>>(rows: R) -> Self {
        Self { rows: rows.into_iter().collect(), index: PhantomData }
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "an index comes from the program that made the table; another one is a bug that must be loud"
)]
impl<I: Index, T> Table<I, T> {
    #[inline]
    pub(crate) fn at(&self, index: I) -> &T {
        &self.rows[index.place()]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: I) -> &mut T {
        &mut self.rows[index.place()]
    }

    #[inline]
    pub(crate) fn slice(&self, places: core::ops::Range<usize>) -> &[T] {
        &self.rows[places]
    }
}

impl<I: Index, T> Table<I, T> {
    #[inline]
    pub(crate) const fn rows(&self) -> &[T] {
        &self.rows
    }

    #[inline]
    pub(crate) const fn rows_mut(&mut self) -> &mut [T] {
        &mut self.rows
    }

    pub(crate) fn into_rows(self) -> Box<[T]> {
        self.rows
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    #[inline]
    pub(crate) fn indices(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.rows.len()).map(I::new)
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.rows.iter().enumerate().map(|(place, row)| (I::new(place), row))
    }

    /// The first row for which `is` holds.
    pub(crate) fn find(&self, mut is: impl FnMut(&T) -> bool) -> Option<I> {
        self.rows.iter().position(&mut is).map(I::new)
    }
}

/// Bits by slot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Box<[u64]>);

impl Clone for Bits {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    fn clone_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "a slot comes from the program that the bits were made for; another one is a bug that must be loud"
)]
impl Bits {
    /// So many bits, all false.
    pub(crate) fn new(count: usize) -> Self {
        Self(alloc::vec![0; count.div_ceil(64).max(1)].into_boxed_slice())
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> bool {
        (self.0[slot.0 / 64] >> (slot.0 % 64)) & 1 == 1
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, value: bool) {
        let bit = slot.0 % 64;
        let word = &mut self.0[slot.0 / 64];
        *word = (*word & !(1 << bit)) | (u64::from(value) << bit);
    }

    #[inline]
    pub(crate) fn word(&self, place: usize) -> u64 {
        self.0[place]
    }

    #[inline]
    pub(crate) const fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}
