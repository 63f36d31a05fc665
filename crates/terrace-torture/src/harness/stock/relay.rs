//! A life led in turns: each engine first sees exactly what the other left.

use terrace_testkit::model::Model;
use terrace_testkit::rng::Rng;
use terrace_testkit::run::{Plan, compare};
use terrace_testkit::settings::Settings;
use terrace_testkit::stock::stock_or_skip;

use super::{Harness, Owner, text};
use crate::tally::{Figure, Tally};

/// Operations of a turn.
const TURN: usize = 600;

pub(in super::super) const RELAY: Harness = Harness {
    id: 40,
    name: "relay",
    shows: "what one engine wrote the other finds, in either direction, over and over",
    check: 150,
    share: 1,
    run: relay,
};

fn relay(seed: u64, tally: &Tally) -> Result<(), String> {
    let Some(stock) = stock_or_skip() else { return Ok(()) };
    let mut rng = Rng::new(!seed);
    let turns = 2 + rng.below(4) as usize;
    let plan = Plan::draw(seed, turns * TURN, |shape, _| (shape.own, shape.sync_one_in) = (false, 0));
    let (dir, mut model) = (tempfile::tempdir().map_err(text)?, Model::new(plan.shape.order));
    let mut owner = rng.pick(&[Owner::Theirs, Owner::Ours]);
    for turn in 0..turns {
        let settings = Settings::draw(&mut rng, plan.shape.order);
        let context = |what: String| format!("turn {turn} of {turns}, {owner:?}, [{settings}]: {what}");
        let mut subject = owner.open(stock, dir.path(), &settings).map_err(context)?;
        compare(&mut *subject, &mut model).map_err(context)?;
        let part = turn * TURN..(turn + 1) * TURN;
        plan.run_part(part, &mut *subject, &mut model).map_err(|report| context(report.to_string()))?;
        model.forget_readers();
        owner = owner.other();
    }
    tally.add(Figure::Relays, turns as u64 - 1);
    Ok(())
}
