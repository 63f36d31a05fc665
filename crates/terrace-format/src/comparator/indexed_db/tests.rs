use super::*;
use crate::coding::put_varint64;
use proptest::prelude::*;

fn ids(database: u8, store: u8, index: u8) -> Vec<u8> {
    vec![0, database, store, index]
}

fn text(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut bytes = Vec::new();
    put_varint64(&mut bytes, units.len() as u64);
    bytes.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
    bytes
}

fn string(value: &str) -> Vec<u8> {
    [vec![1], text(value)].concat()
}

fn date(value: f64) -> Vec<u8> {
    [vec![2], value.to_le_bytes().to_vec()].concat()
}

fn number(value: f64) -> Vec<u8> {
    [vec![3], value.to_le_bytes().to_vec()].concat()
}

fn array(elements: &[Vec<u8>]) -> Vec<u8> {
    [vec![4, elements.len() as u8], elements.concat()].concat()
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    [&[6, bytes.len() as u8], bytes].concat()
}

/// Returns keys of one object store with the given values.
fn records(values: &[Vec<u8>]) -> Vec<Vec<u8>> {
    values.iter().map(|value| [ids(1, 1, 1), value.clone()].concat()).collect()
}

#[track_caller]
fn check_rising(keys: &[Vec<u8>]) {
    for (i, a) in keys.iter().enumerate() {
        for (j, b) in keys.iter().enumerate() {
            assert_eq!(IndexedDb.compare(a, b), i.cmp(&j), "{a:x?} and {b:x?}, rows {i} and {j}");
        }
    }
}

#[track_caller]
fn check_equal(a: &[u8], b: &[u8]) {
    assert_eq!(IndexedDb.compare(a, b), Ordering::Equal, "{a:x?} and {b:x?}");
}

#[test]
fn values() {
    const LOWEST: u8 = 5;
    const HIGHEST: u8 = 0;
    check_rising(&records(&[
        vec![LOWEST],
        number(f64::NEG_INFINITY),
        number(-2.5),
        number(-1e-300),
        number(0.0),
        number(3.25),
        number(1e300),
        number(f64::INFINITY),
        date(-1.0),
        date(1e12),
        string(""),
        string("a"),
        string("aa"),
        string("b"),
        string("\u{ff}"),
        string("\u{100}"),
        binary(b""),
        binary(b"\0"),
        binary(b"\0\0"),
        binary(b"\xff"),
        array(&[]),
        array(&[number(1.0)]),
        array(&[number(1.0), number(2.0)]),
        array(&[number(1.0), string("x")]),
        array(&[number(2.0)]),
        array(&[array(&[]), number(1.0)]),
        array(&[array(&[number(5.0)])]),
        vec![HIGHEST],
    ]));
}

#[test]
fn nested_array_ends_before_the_next_element() {
    check_rising(&records(&[
        array(&[array(&[number(1.0)]), number(9.0)]),
        array(&[array(&[number(1.0), number(0.0)]), number(0.0)]),
    ]));
}

#[test]
fn width_of_ids_does_not_matter() {
    let wide = |index: u32| [&[0b0010_1011, 1, 0, 1, 0, 0], &index.to_le_bytes()[..], &[5]].concat();
    check_rising(&[
        [ids(0, 0, 0), vec![0]].concat(),
        [ids(1, 0, 0), vec![0]].concat(),
        [ids(1, 1, 1), vec![5]].concat(),
        [ids(1, 1, 2), vec![5]].concat(),
        [ids(1, 1, 3), vec![5]].concat(),
        [ids(1, 1, 30), vec![5]].concat(),
        wide(31),
        [ids(1, 1, 255), vec![5]].concat(),
        wide(256),
        [ids(1, 2, 1), vec![5]].concat(),
        [ids(2, 1, 1), vec![5]].concat(),
    ]);
    check_equal(&wide(30), &[ids(1, 1, 30), vec![5]].concat());
}

#[test]
fn global_metadata_keys() {
    let key = |rest: &[u8]| [&ids(0, 0, 0), rest].concat();
    check_rising(&[
        key(&[]),
        key(&[0]),
        key(&[6]),
        key(b"\x32"),
        key(b"\x32abc"),
        key(b"\x32b"),
        key(&[100, 0x05]),
        key(&[100, 0x80, 0x01]),
        key(&[&[201], &text("a")[..], &text("z")].concat()),
        key(&[&[201], &text("aa")[..], &text("a")].concat()),
        key(&[&[201], &text("b")[..], &text("a")].concat()),
        key(&[&[201], &text("b")[..], &text("aa")].concat()),
    ]);
    check_equal(&key(&[3]), &key(&[3, 7]));
}

#[test]
fn database_metadata_keys() {
    let key = |rest: &[u8]| [&ids(1, 0, 0), rest].concat();
    check_rising(&[
        key(&[]),
        key(&[0]),
        key(&[5]),
        key(&[50, 1, 0]),
        key(&[50, 1, 255]),
        key(&[50, 0xac, 0x02, 0]),
        key(&[100, 1, 30, 1]),
        key(&[100, 1, 31, 0]),
        key(&[100, 2, 30, 0]),
        key(&[150, 1]),
        key(&[151, 1, 30]),
        key(&[151, 1, 31]),
        key(&[&[200], &text("aa")[..]].concat()),
        key(&[&[200], &text("b")[..]].concat()),
        key(&[&[201, 1], &text("aa")[..]].concat()),
        key(&[&[201, 1], &text("b")[..]].concat()),
        key(&[&[201, 2], &text("a")[..]].concat()),
    ]);
}

#[test]
fn index_entries() {
    let key =
        |sequence: &[u8], primary: &[u8]| [&ids(1, 1, 30), &string("k")[..], sequence, primary].concat();
    check_rising(&[
        ids(1, 1, 30),
        key(&[], &[]),
        key(&[9], &number(1.0)),
        key(&[0x80, 0x01], &number(1.0)),
        key(&[0], &number(2.0)),
    ]);
    check_equal(&key(&[], &[]), &key(&[7], &[]));
}

#[test]
fn negative_zero_equals_zero() {
    let keys = records(&[number(0.0), number(-0.0)]);
    check_equal(&keys[0], &keys[1]);
}

#[test]
fn damaged_keys_sort_last() {
    let whole = records(&[array(&[number(1.0)]), vec![0]]);
    let array_cut_off = records(&[vec![4, 2, 5]]);
    check_rising(&[array_cut_off[0].clone(), whole[0].clone(), whole[1].clone()]);
    let unknown_type = records(&[vec![9], vec![9, 1]]);
    let length_beyond_the_end = records(&[vec![1, 3, 0, 1]]);
    check_rising(&[
        whole[1].clone(),
        length_beyond_the_end[0].clone(),
        unknown_type[0].clone(),
        unknown_type[1].clone(),
        vec![0xff, 1],
    ]);
}

#[test]
fn hostile_lengths_and_depths() {
    let huge = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    for kind in [1, 4, 6] {
        let key = records(&[[&[kind], &huge[..]].concat()]);
        check_equal(&key[0], &key[0]);
    }
    let deep = records(&[[4, 1].repeat(1 << 20)]);
    check_equal(&deep[0], &deep[0]);
}

fn arbitrary_key() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![4 => 0u8..8, 1 => Just(30u8), 1 => Just(100u8), 1 => Just(201u8), 1 => any::<u8>()];
    let id = prop_oneof![0u8..4, Just(30u8)];
    (proptest::collection::vec(id, 3), proptest::collection::vec(byte, 0..12))
        .prop_map(|(ids, rest)| [vec![0], ids, rest].concat())
}

proptest! {
    #[test]
    fn arbitrary_keys_have_a_total_order(a in arbitrary_key(), b in arbitrary_key(), c in arbitrary_key()) {
        prop_assert_eq!(IndexedDb.compare(&a, &a), Ordering::Equal);
        prop_assert_eq!(IndexedDb.compare(&a, &b), IndexedDb.compare(&b, &a).reverse());
        let mut keys = [a, b, c];
        keys.sort_by(|x, y| IndexedDb.compare(x, y));
        prop_assert!(IndexedDb.compare(&keys[0], &keys[2]).is_le());
    }

    #[test]
    fn arbitrary_bytes_never_panic(a in proptest::collection::vec(any::<u8>(), 0..40), cut in 0usize..40) {
        let b = &a[..cut.min(a.len())];
        prop_assert_eq!(IndexedDb.compare(&a, b), IndexedDb.compare(b, &a).reverse());
    }
}
