//! New neighbours that ask where an address is, 50 times a second, and notice who answers.
//!
//! Each question has a hardware address of its own, so that each answer tells which question it is
//! for, however late it comes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::Socket;

use super::capture::{next_frame, open_filtered};
use super::frame::{Frame, Mac};
use super::host::Host;
use super::raw::{ArpToSend, Solicitation};
use super::{filters, namespace};

/// How often is asked.
pub const SPACING: Duration = Duration::from_millis(20);

/// How many questions have different hardware addresses, one after the other: 40 s of them, longer
/// than any pause after which a frozen program might answer what it was asked before.
const ASKERS: usize = 2000;

/// The askers' hardware addresses begin like this.
const PREFIX: [u8; 3] = [0x02, 0x61, 0x73];

/// Answers later than this do not help the neighbour that asked.
const LATEST_ANSWER: Duration = Duration::from_millis(300);

/// Questions that are younger may still be answered.
const SETTLING: Duration = Duration::from_millis(40);

/// One question.
#[derive(Clone, Debug)]
pub struct Question {
    /// When it was asked.
    pub at: Instant,
    /// Who answered, and when.
    pub answers: Vec<(Instant, Mac)>,
}

impl Question {
    fn in_time(&self) -> impl Iterator<Item = Mac> {
        let latest = self.at + LATEST_ANSWER;
        let answers = self.answers.iter();
        answers.filter_map(move |(at, mac)| (*at <= latest).then_some(*mac))
    }

    /// Who answered in time, if anybody.
    pub fn answered_by(&self) -> Option<Mac> {
        self.in_time().next()
    }

    fn is_answered_by_two(&self) -> bool {
        self.answers
            .iter()
            .map(|(_, mac)| mac)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    }
}

/// What the new neighbours have seen.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// All questions of the span.
    pub questions: Vec<Question>,
}

impl Answers {
    /// For how long nobody answered.
    pub fn dark(&self) -> Duration {
        let unanswered = |question: &&Question| question.answered_by().is_none();
        SPACING
            * u32::try_from(self.questions.iter().filter(unanswered).count()).unwrap_or(u32::MAX)
    }

    /// For how long two nodes answered the same question.
    pub fn two(&self) -> Duration {
        let two = |question: &&Question| question.is_answered_by_two();
        SPACING * u32::try_from(self.questions.iter().filter(two).count()).unwrap_or(u32::MAX)
    }

    /// Who answered, one after the other.
    pub fn speakers(&self) -> Vec<Mac> {
        let mut speakers: Vec<Mac> = self
            .questions
            .iter()
            .filter_map(Question::answered_by)
            .collect();
        speakers.dedup();
        speakers
    }

    /// Answers that came too late for who asked: a program that catches up after a pause.
    pub fn late(&self) -> Vec<(Instant, Mac)> {
        let mut late: Vec<_> = self
            .questions
            .iter()
            .flat_map(|question| {
                let latest = question.at + LATEST_ANSWER;
                question.answers.iter().filter(move |(at, _)| *at > latest)
            })
            .copied()
            .collect();
        late.sort();
        late
    }
}

/// Asks for one address.
#[derive(Debug)]
pub struct Prober {
    questions: Arc<Mutex<Vec<Question>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Host {
    /// Asks from this host's cable where an address is, as new neighbours of it would.
    pub fn prober(&self, target: IpAddr) -> Result<Prober> {
        self.prober_on("eth0", target)
    }

    /// [`Self::prober`] on another interface.
    pub fn prober_on(&self, interface: &str, target: IpAddr) -> Result<Prober> {
        let open = || {
            let filter = filters::answers();
            namespace::inside(Some(self.name()), || open_filtered(interface, &filter))
        };
        let (asking, listening) = (open()?, open()?);
        let sender = match target {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                IpAddr::from([a, b, c, 240])
            }
            IpAddr::V6(_) => self.ipv6().into(),
        };
        // What is asked here is not taken for what was asked by the prober before.
        static SERIES: AtomicU8 = AtomicU8::new(0);
        let series = SERIES.fetch_add(1, Ordering::Relaxed);
        let questions = Arc::<Mutex<Vec<Question>>>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let ask = {
            let (questions, stop) = (Arc::clone(&questions), Arc::clone(&stop));
            move || ask_steadily(asking, series, &questions, (sender, target), &stop)
        };
        let note = {
            let (questions, stop) = (Arc::clone(&questions), Arc::clone(&stop));
            move || note_answers(&listening, series, &questions, target, &stop)
        };
        Ok(Prober {
            questions,
            stop,
            threads: vec![std::thread::spawn(ask), std::thread::spawn(note)],
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn asker(series: u8, number: usize) -> Mac {
    let number = u16::try_from(number % ASKERS).unwrap_or_default();
    let [high, low] = number.to_be_bytes();
    let [a, b, c] = PREFIX;
    Mac([a, b, c, series, high, low])
}

fn number_of(series: u8, asker: Mac) -> Option<usize> {
    let [a, b, c, of, high, low] = asker.0;
    ([a, b, c] == PREFIX && of == series).then(|| usize::from(u16::from_be_bytes([high, low])))
}

fn question(mac: Mac, sender: IpAddr, target: IpAddr) -> Vec<u8> {
    match (sender, target) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => ArpToSend::who_has(target, sender, mac).bytes(),
        (IpAddr::V6(sender), IpAddr::V6(target)) => Solicitation {
            to: None,
            mac,
            sender,
            target,
        }
        .bytes(),
        _ => Vec::new(),
    }
}

fn ask_steadily(
    mut socket: Socket,
    series: u8,
    questions: &Mutex<Vec<Question>>,
    (sender, target): (IpAddr, IpAddr),
    stop: &AtomicBool,
) {
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let number = {
            let mut questions = lock(questions);
            questions.push(Question {
                at: Instant::now(),
                answers: Vec::new(),
            });
            questions.len() - 1
        };
        let frame = question(asker(series, number), sender, target);
        socket
            .write_all(&frame)
            .context("asking")
            .unwrap_or_else(|error| panic!("{error:#}"));
        due += SPACING;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn note_answers(
    socket: &Socket,
    series: u8,
    questions: &Mutex<Vec<Question>>,
    target: IpAddr,
    stop: &AtomicBool,
) {
    let mut buffer = vec![0; 2048];
    let mut end = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            let end = *end.get_or_insert_with(|| Instant::now() + LATEST_ANSWER);
            if Instant::now() > end {
                return;
            }
        }
        let frame = match next_frame(socket, &mut buffer) {
            Ok(Some(frame)) => frame,
            Ok(None) => continue,
            Err(error) => panic!("{error:#}"),
        };
        let (Some(mac), Some(number)) = (
            answer(&frame, target),
            frame
                .destination()
                .and_then(|asker| number_of(series, asker)),
        ) else {
            continue;
        };
        let mut questions = lock(questions);
        // The last question of this asker.
        let last = questions.len().saturating_sub(1);
        let index = last.checked_sub((last + ASKERS - number) % ASKERS);
        if let Some(question) = index.and_then(|index| questions.get_mut(index)) {
            question.answers.push((frame.at, mac));
        }
    }
}

/// Whose hardware address a frame gives for the address, if it is an answer.
fn answer(frame: &Frame, target: IpAddr) -> Option<Mac> {
    match target {
        IpAddr::V4(target) => frame
            .arp()
            .filter(|arp| !arp.is_request && arp.sender == target)
            .map(|arp| arp.sender_mac),
        IpAddr::V6(target) => frame
            .neighbour_advertisement()
            .filter(|told| told.target == target)
            .and_then(|told| told.mac),
    }
}

impl Prober {
    /// What was seen of the questions asked since, except those that may not have been answered
    /// yet.
    pub fn so_far(&self, since: Instant) -> Answers {
        let until = Instant::now() - SETTLING;
        let questions = lock(&self.questions);
        let within = |question: &&Question| question.at >= since && question.at < until;
        Answers {
            questions: questions.iter().filter(within).cloned().collect(),
        }
    }

    /// Who has answered all questions for so long, if it was one, and all.
    pub fn only_speaker(&self, span: Duration) -> Option<Mac> {
        let start = Instant::now().checked_sub(span + SETTLING)?;
        let first = lock(&self.questions).first()?.at;
        let seen = self.so_far(start);
        let [speaker] = seen.speakers()[..] else {
            return None;
        };
        (first <= start && seen.dark().is_zero() && seen.two().is_zero()).then_some(speaker)
    }

    /// Stops, waits for what is on its way, and says what was seen since.
    pub fn end(mut self, since: Instant) -> Answers {
        self.join();
        let questions = lock(&self.questions);
        let within = |question: &&Question| question.at >= since;
        Answers {
            questions: questions.iter().filter(within).cloned().collect(),
        }
    }

    /// Asks no more.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn join(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // A panic in it has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(answers: &[&[(u64, u8)]]) -> Answers {
        let start = Instant::now();
        let questions = answers.iter().enumerate().map(|(index, answers)| {
            let at = start + SPACING * u32::try_from(index).unwrap();
            let answer = |&(late, mac): &(u64, u8)| {
                (at + Duration::from_millis(late), Mac([2, 0, 0, 0, 0, mac]))
            };
            Question {
                at,
                answers: answers.iter().map(answer).collect(),
            }
        });
        Answers {
            questions: questions.collect(),
        }
    }

    #[test]
    fn silence_and_two_answers_are_told_apart() {
        let seen = seen(&[&[(1, 1)], &[], &[], &[(1, 2), (2, 1)], &[(1, 2), (4, 2)]]);
        assert_eq!(seen.dark(), SPACING * 2);
        assert_eq!(seen.two(), SPACING);
        assert_eq!(seen.speakers().len(), 2);
        assert!(seen.late().is_empty());
    }

    #[test]
    fn an_answer_after_a_pause_helps_nobody_but_counts_as_a_second_one() {
        let seen = seen(&[&[(1, 1), (9_000, 2)], &[(9_000, 2)]]);
        assert_eq!((seen.dark(), seen.two()), (SPACING, SPACING));
        assert_eq!(seen.late().len(), 2);
    }

    #[test]
    fn askers_are_told_apart_for_longer_than_any_pause() {
        assert_eq!(number_of(7, asker(7, 1999)), Some(1999));
        assert_eq!(asker(7, 2000), asker(7, 0));
        assert_eq!(number_of(8, asker(7, 5)), None);
        assert_eq!(number_of(7, Mac([2, 0x4d, 0x6f, 0x6f, 0x72, 11])), None);
    }
}
