//! XREAD and XREADGROUP: entries of several streams, or a wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::group::PendingScan;
use super::range::reply_entries;
use super::{GroupEdit, Pending, Stream, StreamId, entry, info, no_group};
use crate::command::members::check_bytes;
use crate::command::{Args, Call};
use crate::conn::BlockedCommand;
use crate::failure::{CommandResult, Failure};
use crate::resp::Reply;
use crate::store::{EventClass, ValueType, View};

/// Consumer that reads.
#[derive(Debug, Clone)]
struct Reader {
    group: Vec<u8>,
    consumer: Vec<u8>,
    /// True if the entries do not become pending.
    is_noack: bool,
}

/// Begin of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    After(StreamId),
    /// Entries that the group has not delivered.
    New,
}

/// Options of both commands.
struct ReadOptions {
    count: u64,
    /// Time to wait, None without end.
    block: Option<Option<Duration>>,
    reader: Option<Reader>,
    /// Index of the first key.
    keys: usize,
    /// Number of keys.
    len: usize,
}

/// XREAD [COUNT count] [BLOCK ms] STREAMS key .. id ..
pub(in crate::command) fn xread(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    read(call, args, &ReadOptions::parse(args, false)?)
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK ms] [NOACK] STREAMS key .. id ..
pub(in crate::command) fn xreadgroup(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    read(call, args, &ReadOptions::parse(args, true)?)
}

impl ReadOptions {
    fn parse(args: Args<'_>, is_group: bool) -> CommandResult<ReadOptions> {
        let only_for_groups = |option: &str| {
            Failure::reply(format!(
                "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
            ))
        };
        let mut options = ReadOptions { count: u64::MAX, block: None, reader: None, keys: 0, len: 0 };
        let mut is_noack = false;
        let mut index = 1;
        while index < args.len() && options.keys == 0 {
            let more = args.len() - index - 1;
            let mut width = 2;
            if more > 0 && args.is(index, "BLOCK") {
                options.block = Some(block_time(args, index + 1)?);
            } else if more > 0 && args.is(index, "COUNT") {
                let count = u64::try_from(args.integer(index + 1)?).unwrap_or(0);
                options.count = if count == 0 { u64::MAX } else { count };
            } else if more > 0 && args.is(index, "STREAMS") {
                options.keys = index + 1;
                options.len = more / 2;
                if more % 2 == 1 {
                    return Err(Failure::reply(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    ));
                }
            } else if more > 1 && args.is(index, "GROUP") {
                if !is_group {
                    return Err(only_for_groups("GROUP"));
                }
                let [group, consumer] = [1, 2].map(|at| args.at(index + at).to_vec());
                options.reader = Some(Reader { group, consumer, is_noack: false });
                width = 3;
            } else if args.is(index, "NOACK") {
                if !is_group {
                    return Err(only_for_groups("NOACK"));
                }
                is_noack = true;
                width = 1;
            } else {
                return Err(Failure::SYNTAX);
            }
            index += width;
        }
        if options.keys == 0 {
            return Err(Failure::SYNTAX);
        }
        match &mut options.reader {
            Some(reader) => reader.is_noack = is_noack,
            None if is_group => return Err(Failure::reply("ERR Missing GROUP option for XREADGROUP")),
            None => {}
        }
        Ok(options)
    }
}

/// True if the command, XREAD or XREADGROUP, may wait.
pub(in crate::command) fn may_wait(args: Args<'_>) -> CommandResult<bool> {
    Ok(ReadOptions::parse(args, args.is(0, "XREADGROUP"))?.block.is_some())
}

/// Returns the time that an argument states in milliseconds. None for a wait without end.
fn block_time(args: Args<'_>, index: usize) -> CommandResult<Option<Duration>> {
    let ms = args.integer(index);
    let ms = ms.map_err(|_| Failure::reply("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| Failure::reply("ERR timeout is negative"))?;
    Ok((ms > 0).then(|| Duration::from_millis(ms)))
}

/// Returns the begin of the read of `key`.
fn begin(call: &mut Call<'_>, key: &[u8], text: &[u8], reader: Option<&Reader>) -> CommandResult<From> {
    let stream = Stream::open(&mut call.view, call.session.database, key)?;
    if let Some(reader) = reader {
        let group = match &stream {
            Some(stream) => GroupEdit::open(&mut call.view, stream, &reader.group)?,
            None => None,
        };
        if group.is_none() {
            return Err(no_group(key, &reader.group, " in XREADGROUP with GROUP option"));
        }
    }
    match (text, reader) {
        (b"$", Some(_)) => Err(Failure::reply(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        )),
        (b"$", None) => Ok(From::After(stream.map_or(StreamId::MIN, |stream| stream.last_id()))),
        (b">", Some(_)) => Ok(From::New),
        (b">", None) => Err(Failure::reply(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        _ => Ok(From::After(StreamId::parse_strict(text, 0)?)),
    }
}

fn read(call: &mut Call<'_>, args: Args<'_>, options: &ReadOptions) -> CommandResult {
    let keys: Vec<&[u8]> = args.from(options.keys).take(options.len).collect();
    let may_wait = !call.view.is_transaction() && !call.view.is_of_snapshot();
    let reader = options.reader.as_ref();
    if reader.is_some() && keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
        // The second read of a stream starts after the first one.
        call.view.see_own_writes()?;
    }
    let mut begins = Vec::new();
    for (key, text) in keys.iter().zip(args.from(options.keys + options.len)) {
        begins.push(begin(call, key, text, reader)?);
    }
    let database = call.session.database;
    let mut rows = new_rows(call.reply);
    let mut len = 0;
    for (key, from) in keys.iter().zip(&begins) {
        let Some(stream) = Stream::open(&mut call.view, database, key)? else { continue };
        let read = StreamRead { database, key, stream: &stream, reader, count: options.count };
        len += usize::from(read.run(&mut call.view, *from, &mut rows)?);
    }
    match options.block {
        _ if len > 0 => append_rows(call.reply, len, &rows),
        Some(timeout) if may_wait => wait(call, &keys, &begins, options, timeout),
        _ => call.reply.null_array(),
    }
    Ok(())
}

/// Reply for the rows of the streams, in the client's version of the protocol.
fn new_rows(reply: &Reply) -> Reply {
    let mut rows = Reply::new();
    rows.set_resp3(reply.is_resp3());
    rows
}

/// Appends the rows of `len` streams.
fn append_rows(reply: &mut Reply, len: usize, rows: &Reply) {
    if reply.is_resp3() {
        reply.map(len)
    } else {
        reply.array(len)
    }
    reply.raw(rows.as_bytes());
}

fn wait(
    call: &mut Call<'_>,
    keys: &[&[u8]],
    begins: &[From],
    options: &ReadOptions,
    timeout: Option<Duration>,
) {
    let mut after = BTreeMap::new();
    for (key, from) in keys.iter().zip(begins) {
        // The first of several begins counts.
        after.entry(key.to_vec()).or_insert(*from);
    }
    let command = WaitingRead { after, count: options.count, reader: options.reader.clone() };
    call.block(keys.iter().copied(), timeout, Box::new(command));
}

/// XREAD or XREADGROUP of a client that waits.
#[derive(Debug)]
struct WaitingRead {
    after: BTreeMap<Vec<u8>, From>,
    count: u64,
    reader: Option<Reader>,
}

impl BlockedCommand for WaitingRead {
    fn serve(&self, view: &mut View<'_>, database: u8, key: &[u8], reply: &mut Reply) -> CommandResult<bool> {
        let entry = view.get(database, key)?;
        let reader = self.reader.as_ref();
        if entry.is_none_or(|entry| entry.header.value_type != ValueType::Stream) {
            return match reader {
                Some(_) => Err(Failure::reply("UNBLOCKED the stream key no longer exists")),
                None => Ok(false),
            };
        }
        let Some(stream) = Stream::open(view, database, key)? else { return Ok(false) };
        if let Some(reader) = reader
            && GroupEdit::open(view, &stream, &reader.group)?.is_none()
        {
            return Err(Failure::reply(
                "NOGROUP the consumer group this client was blocked on no longer exists",
            ));
        }
        let Some(from) = self.after.get(key) else { return Ok(false) };
        let mut rows = new_rows(reply);
        let read = StreamRead { database, key, stream: &stream, reader, count: self.count };
        let is_served = read.run(view, *from, &mut rows)?;
        if is_served {
            append_rows(reply, 1, &rows);
        }
        Ok(is_served)
    }

    fn ends_without_key(&self) -> bool {
        self.reader.is_some()
    }
}

/// Read of one stream.
struct StreamRead<'a> {
    database: u8,
    key: &'a [u8],
    stream: &'a Stream,
    reader: Option<&'a Reader>,
    count: u64,
}

impl StreamRead<'_> {
    /// Appends the key and the entries. Returns false, without a write, if there is nothing new.
    /// The history of a consumer is never new, and its row may be empty.
    fn run(&self, view: &mut View<'_>, from: From, rows: &mut Reply) -> CommandResult<bool> {
        let mut entries = new_rows(rows);
        let is_served = match self.reader {
            Some(reader) => self.read_for(view, reader, from, &mut entries)?,
            None => self.read_plain(view, from, &mut entries)? > 0,
        };
        if is_served {
            if !rows.is_resp3() {
                rows.array(2);
            }
            rows.bulk(self.key);
            rows.raw(entries.as_bytes());
            check_bytes(rows.len())?;
        }
        Ok(is_served)
    }

    fn read_plain(&self, view: &mut View<'_>, from: From, entries: &mut Reply) -> CommandResult<usize> {
        let From::After(after) = from else { return Ok(0) };
        let Some(begin) = after.next().filter(|begin| *begin <= self.stream.last_id()) else {
            return Ok(0);
        };
        let mut scan = self.stream.entries(view, begin, StreamId::MAX, false)?;
        reply_entries(entries, &mut scan, self.count, |_| Ok(()))
    }

    fn read_for(
        &self,
        view: &mut View<'_>,
        reader: &Reader,
        from: From,
        entries: &mut Reply,
    ) -> CommandResult<bool> {
        let Some(mut edit) = GroupEdit::open(view, self.stream, &reader.group)? else { return Ok(false) };
        match from {
            From::After(after) => {
                self.touch(view, &mut edit, reader)?;
                self.read_history(view, &mut edit, reader, after, entries)?;
            }
            From::New if self.has_new(view, &edit)? => {
                self.touch(view, &mut edit, reader)?;
                self.read_new(view, &mut edit, reader, entries)?;
            }
            From::New => return Ok(false),
        }
        edit.save(view)?;
        Ok(true)
    }

    fn touch(&self, view: &mut View<'_>, edit: &mut GroupEdit, reader: &Reader) -> CommandResult {
        if edit.touch_consumer(view, &reader.consumer)? {
            view.notify(self.database, EventClass::STREAM, "xgroup-createconsumer", self.key);
        }
        Ok(())
    }

    /// True if the stream has an entry that the group has not delivered.
    fn has_new(&self, view: &mut View<'_>, edit: &GroupEdit) -> CommandResult<bool> {
        match edit.group.last_id.next() {
            Some(begin) if begin <= self.stream.last_id() => {
                Ok(self.stream.entries(view, begin, StreamId::MAX, false)?.next()?.is_some())
            }
            _ => Ok(false),
        }
    }

    /// Delivers new entries.
    fn read_new(
        &self,
        view: &mut View<'_>,
        edit: &mut GroupEdit,
        reader: &Reader,
        entries: &mut Reply,
    ) -> CommandResult {
        let Some(begin) = edit.group.last_id.next() else { return Ok(()) };
        let now = view.now_ms();
        let mut scan = self.stream.entries(view, begin, StreamId::MAX, false)?;
        // XGROUP SETID may have moved the group back before pending entries.
        let mut known = KnownPending::new(edit.pending_entries(view, None, begin, StreamId::MAX)?)?;
        reply_entries(entries, &mut scan, self.count, |id| {
            edit.group.entries_read = info::entries_read_after(self.stream, &edit.group, id);
            edit.group.last_id = id;
            if reader.is_noack {
                return Ok(());
            }
            let old = known.take(id)?;
            let new = Pending { delivered: now, count: 1, consumer: reader.consumer.clone() };
            edit.put_pending(view, id, old.as_ref(), new)
        })?;
        Ok(())
    }

    /// Delivers the pending entries of the consumer again.
    fn read_history(
        &self,
        view: &mut View<'_>,
        edit: &mut GroupEdit,
        reader: &Reader,
        after: StreamId,
        entries: &mut Reply,
    ) -> CommandResult {
        let now = view.now_ms();
        let begin = after.next().unwrap_or(StreamId::MAX);
        let mut scan = edit.pending_entries(view, Some(&reader.consumer), begin, StreamId::MAX)?;
        let mut rows = new_rows(entries);
        let mut len = 0;
        while (len as u64) < self.count
            && let Some((id, _)) = scan.next()?
        {
            match self.stream.entry(view, id)? {
                Some(fields) => {
                    entry::reply(&mut rows, id, &fields)?;
                    if let Some(old) = edit.pending(view, id)? {
                        let new =
                            Pending { delivered: now, count: old.count.saturating_add(1), ..old.clone() };
                        edit.put_pending(view, id, Some(&old), new)?;
                    }
                }
                None => {
                    rows.array(2);
                    entry::reply_id(&mut rows, id);
                    rows.null_array();
                }
            }
            check_bytes(rows.len())?;
            len += 1;
        }
        entries.array(len);
        entries.raw(rows.as_bytes());
        Ok(())
    }
}

/// Pending entries in the order of a read.
struct KnownPending {
    scan: PendingScan,
    next: Option<(StreamId, Option<Pending>)>,
}

impl KnownPending {
    fn new(mut scan: PendingScan) -> CommandResult<KnownPending> {
        let next = scan.next()?;
        Ok(KnownPending { scan, next })
    }

    /// Returns the state of `id` if it is pending. The calls have ascending IDs.
    fn take(&mut self, id: StreamId) -> CommandResult<Option<Pending>> {
        while self.next.as_ref().is_some_and(|(next, _)| *next < id) {
            self.next = self.scan.next()?;
        }
        if self.next.as_ref().is_none_or(|(next, _)| *next != id) {
            return Ok(None);
        }
        let found = std::mem::replace(&mut self.next, self.scan.next()?);
        Ok(found.and_then(|(_, pending)| pending))
    }
}
