//! Trace lines exactly as they are written, read in one pass.
//!
//! The keys of a line that was written by [`endstop_core::wire::v1::trace`] come in one order and without
//! spaces, so it can be read from left to right without looking for them. Whatever is otherwise, or is not
//! certain to be what the general reader would say, is `None`: that line goes to the general reader. So
//! nothing that is damaged is decided here.

use endstop_core::Event;
use endstop_core::event::{EventKind, Source};
use endstop_core::units::{Cost, Millis, Money, TokenUsage, WallTime};

use super::super::Wants;

/// The decimals of an amount in pico-dollars, how many of these a dollar has, and the whole digits that are
/// read here.
const DECIMALS: usize = 12;
const PICOS: u64 = 1_000_000_000_000;
const WHOLE_DIGITS: usize = 6;

/// Powers of ten, for the digits that one word holds.
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Room for texts that hold escapes, kept from line to line.
#[derive(Debug, Default)]
pub(super) struct Unescaped([String; 2]);

/// Reads the line that `ahead` begins with, up to its line feed or the end, into `event`. Returns how many bytes it
/// took, without the line feed. If it is `None`, `event` is invalid. It is filled in place because a copy would wait
/// for the writes just before.
#[inline]
pub(super) fn read<'b>(
    ahead: &'b str,
    wants: Wants,
    unescaped: &'b mut Unescaped,
    event: &mut Event<'b>,
) -> Option<usize> {
    let mut cursor = Cursor { text: ahead, rest: ahead.as_bytes() };
    cursor.eat(b"{\"at\":")?;
    event.at = Millis(cursor.number()?);
    event.wall = WallTime(cursor.number_after(b",\"wall\":")?.unwrap_or(0));
    let descendant = cursor.eat(b",\"descendant\":true").is_some();
    event.source = if descendant { Source::Descendant } else { Source::Own };
    cursor.eat(b",\"event\":\"")?;
    cursor.kind(wants, unescaped, &mut event.kind)?;
    cursor.eat(b"}")?;
    matches!(cursor.rest.first(), None | Some(b'\n')).then(|| ahead.len() - cursor.rest.len())
}

/// The character of an escape of one letter. Others are left to the general reader.
const fn meaning(letter: u8) -> Option<char> {
    Some(match letter {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

struct Cursor<'b> {
    /// Texts are taken from here, because these bytes are known to be UTF-8.
    text: &'b str,
    /// The unread bytes.
    rest: &'b [u8],
}

impl<'b> Cursor<'b> {
    #[inline]
    fn eat<const N: usize>(&mut self, expected: &[u8; N]) -> Option<()> {
        let (found, rest) = self.rest.split_first_chunk::<N>()?;
        (found == expected).then(|| self.rest = rest)
    }

    /// A count as JSON writes it, of up to 16 digits. A longer one is left to the general reader. Every line has at
    /// least two: the position after it must not go through memory.
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let begins_with_zero = self.rest.first() == Some(&b'0');
        let (mut value, mut length) = self.digits()?;
        if length == 8 {
            let (more, digits) = self.digits()?;
            if digits == 8 && self.rest.first().is_some_and(u8::is_ascii_digit) {
                return None;
            }
            value = value.wrapping_mul(*POWERS.get(digits)?).wrapping_add(more);
            length += digits;
        }
        (length == 1 || (length > 1 && !begins_with_zero)).then_some(value)
    }

    /// Up to eight digits, and how many.
    #[inline(always)]
    fn digits(&mut self) -> Option<(u64, usize)> {
        let eight = self.rest.first_chunk().copied();
        let (value, length) = digits_of(eight.unwrap_or_else(|| padded(self.rest)));
        self.rest = self.rest.get(length..)?;
        Some((value, length))
    }

    /// An optional number; `None` if it is not one.
    #[inline]
    fn number_after<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<u64>> {
        match self.eat(key) {
            Some(()) => self.number().map(Some),
            None => Some(None),
        }
    }

    /// The bytes from here to a quote at `length`; moves past that.
    #[inline]
    fn take(&mut self, length: usize) -> Option<&'b str> {
        let from = self.text.len() - self.rest.len();
        self.rest = self.rest.get(length + 1..)?;
        self.text.get(from..from + length)
    }

    /// A text, from after its opening quote to after its closing one: the text itself if it is wanted, and otherwise
    /// some text of that length.
    #[inline]
    fn text(&mut self, wanted: bool, into: &'b mut String) -> Option<&'b str> {
        let quoted = self.rest;
        let ahead = self.text.get(self.text.len() - quoted.len()..)?;
        let (mut length, mut said, mut escapes) = (0, 0, 0);
        into.clear();
        loop {
            length += memchr::memchr2(b'"', b'\\', quoted.get(length..)?)?;
            if quoted.get(length) == Some(&b'"') {
                break;
            }
            let meaning = meaning(*quoted.get(length + 1)?)?;
            if wanted {
                into.push_str(ahead.get(said..length)?);
                into.push(meaning);
            }
            // An escape stands for one byte and takes two.
            escapes += 1;
            length += 2;
            said = length;
        }
        let raw = self.take(length)?;
        // Control characters are written as escapes; a line feed would be the end of a damaged line.
        if raw.bytes().fold(false, |found, byte| found | (byte < b' ')) {
            return None;
        }
        if escapes == 0 {
            return Some(raw);
        }
        if wanted {
            into.push_str(raw.get(said..)?);
            return Some(into);
        }
        match raw.get(..length.checked_sub(escapes)?) {
            Some(as_long) => Some(as_long),
            // That would cut a character.
            None => {
                self.rest = quoted;
                self.text(true, into)
            }
        }
    }

    /// A name: a text without escapes, and so short that a search would take longer to begin than to end.
    #[inline]
    fn name(&mut self) -> Option<&'b str> {
        let ends = |byte: &u8| matches!(*byte, b'"' | b'\\' | ..b' ');
        let length = self.rest.iter().position(ends)?;
        (self.rest.get(length) == Some(&b'"')).then(|| self.take(length))?
    }

    #[inline]
    fn name_after<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<&'b str>> {
        match self.eat(key) {
            Some(()) => self.name().map(Some),
            None => Some(None),
        }
    }

    /// The kind of the event, from after the quote that opens its name.
    #[inline]
    fn kind(
        &mut self,
        wants: Wants,
        room: &'b mut Unescaped,
        kind: &mut EventKind<'b>,
    ) -> Option<()> {
        let Unescaped([room, other]) = room;
        match self.rest.first()? {
            b's' if self.eat(b"step_begin\"").is_some() => *kind = EventKind::StepBegin,
            b's' if self.eat(b"step_end\"").is_some() => *kind = EventKind::StepEnd,
            b'a' => {
                self.eat(b"attempt_begin\"")?;
                let next_cost = self.cost(b",\"next_cost\":\"")?;
                *kind = EventKind::AttemptBegin { next_cost };
            }
            b'p' => {
                self.eat(b"piece\",\"text\":\"")?;
                let text = self.text(wants.words, room)?;
                *kind = EventKind::Piece { text };
            }
            b'r' if self.eat(b"reserve\",\"input_tokens\":").is_some() => {
                let input_tokens = self.number()?;
                self.eat(b",\"output_tokens\":")?;
                let output_tokens = self.number()?;
                let cost = self.cost(b",\"cost\":\"")?;
                *kind = EventKind::Reserve { input_tokens, output_tokens, cost };
            }
            b'r' => {
                self.eat(b"reply\"")?;
                self.reply(kind)?;
            }
            b't' if self.eat(b"tool_begin\",\"tool\":\"").is_some() => {
                let tool = self.name()?;
                *kind = EventKind::ToolBegin { tool };
            }
            b't' if self.eat(b"tool_reserve\",\"tool\":\"").is_some() => {
                let tool = self.name()?;
                let cost = self.dollars(b",\"cost\":\"")??;
                let held = self.dollars(b",\"held\":\"")?.unwrap_or(Money::ZERO);
                *kind = EventKind::ToolReserve { tool, cost, held };
            }
            b't' if self.eat(b"tool_cost\",\"tool\":\"").is_some() => {
                let tool = self.name()?;
                let cost = self.dollars(b",\"cost\":\"")??;
                *kind = EventKind::ToolCost { tool, cost };
            }
            b't' if self.eat(b"tool_end\",\"tool\":\"").is_some() => {
                let tool = self.name()?;
                self.eat(b",\"arguments\":\"")?;
                let arguments = self.text(wants.results, other)?;
                self.eat(b",\"result\":\"")?;
                let result = self.text(wants.results, room)?;
                let failed = self.eat(b",\"failed\":true").is_some();
                *kind = EventKind::ToolEnd { tool, arguments, result, failed };
            }
            b't' => self.eat(b"tick\"").map(|()| *kind = EventKind::Tick)?,
            b'u' => self.eat(b"user_message\"").map(|()| *kind = EventKind::UserMessage)?,
            b'c' if self.eat(b"child_end\"").is_some() => *kind = EventKind::ChildEnd,
            b'c' => {
                self.eat(b"child_begin\",\"depth\":")?;
                let depth = u32::try_from(self.number()?).ok()?;
                *kind = EventKind::ChildBegin { depth };
            }
            _ => return None,
        }
        Some(())
    }

    #[inline]
    fn reply(&mut self, kind: &mut EventKind<'b>) -> Option<()> {
        let model = self.name_after(b",\"model\":\"")?;
        let usage = match self.eat(b",\"usage\":{\"input\":") {
            Some(()) => Some(self.usage()?),
            None => None,
        };
        let cost = self.cost(b",\"cost\":\"")?;
        let finish = self.name_after(b",\"finish\":\"")?;
        self.eat(b",\"tool_calls\":")?;
        let tool_calls = u32::try_from(self.number()?).ok()?;
        *kind = EventKind::Reply { model, usage, cost, finish, tool_calls };
        Some(())
    }

    fn usage(&mut self) -> Option<TokenUsage> {
        let input = self.number()?;
        let cache_read = self.number_after(b",\"cache_read\":")?.unwrap_or(0);
        let cache_write = self.number_after(b",\"cache_write\":")?.unwrap_or(0);
        let cache_write_1h = self.number_after(b",\"cache_write_1h\":")?.unwrap_or(0);
        self.eat(b",\"output\":")?;
        let output = self.number()?;
        self.eat(b"}")?;
        Some(TokenUsage { input, cache_read, cache_write, cache_write_1h, output })
    }

    fn cost<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<Cost>> {
        if self.eat(key).is_none() {
            return Some(None);
        }
        let cost = match self.eat(b"unpriced") {
            Some(()) => Cost::Unpriced,
            None => Cost::Known(self.money()?),
        };
        self.eat(b"\"").map(|()| Some(cost))
    }

    /// An amount that may be there, with its quotes.
    fn dollars<const N: usize>(&mut self, key: &[u8; N]) -> Option<Option<Money>> {
        if self.eat(key).is_none() {
            return Some(None);
        }
        let money = self.money()?;
        self.eat(b"\"").map(|()| Some(money))
    }

    /// Dollars and their decimals; few enough digits that nothing can overflow.
    fn money(&mut self) -> Option<Money> {
        let (dollars, digits) = self.digits()?;
        if !(1..=WHOLE_DIGITS).contains(&digits) {
            return None;
        }
        let (mut decimals, mut places) = (0, 0);
        if self.eat(b".").is_some() {
            (decimals, places) = self.digits()?;
            if places == 8 {
                let (more, digits) = self.digits()?;
                decimals = decimals.wrapping_mul(*POWERS.get(digits)?).wrapping_add(more);
                places += digits;
            }
            if places == 0 {
                return None;
            }
        }
        // More decimals than that are refused, or are zeros: the general reader says.
        let [high, low] =
            [DECIMALS.checked_sub(places)? / 2, DECIMALS.checked_sub(places)?.div_ceil(2)];
        let scale = POWERS.get(high)?.wrapping_mul(*POWERS.get(low)?);
        let picos = dollars.wrapping_mul(PICOS).wrapping_add(decimals.wrapping_mul(scale));
        Some(Money::from_picos(picos))
    }
}

/// The last bytes of a text, and zeros behind them.
#[cold]
fn padded(rest: &[u8]) -> [u8; 8] {
    let mut padded = [0; 8];
    padded.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    padded
}

/// The digits that a text of eight bytes begins with, and how many: all at once in one word, as D. Lemire
/// describes it, by pairs, then pairs of pairs.
const fn digits_of(bytes: [u8; 8]) -> (u64, usize) {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let word = u64::from_le_bytes(bytes);
    // Only bytes after the first that is no digit are spoilt by what is carried over from it.
    let others =
        ((word & HIGH) ^ ZEROS) | ((word.wrapping_add(0x0606_0606_0606_0606) & HIGH) ^ ZEROS);
    let bits = others.trailing_zeros() & !7;
    if bits == 0 {
        return (0, 0);
    }
    let digits = (word << (64 - bits)) & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits.wrapping_mul(10 * 256 + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 * 65_536 + 1) >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000 * 4_294_967_296 + 1) >> 32, (bits / 8) as usize)
}

#[cfg(test)]
mod tests;
