"""Forwarding: makes or replays the plans of closed groups, allocates visible stores, launches kernels."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import Any

from diffuse.fusion.temporaries import results, temporaries
from diffuse.interrupts import of_handler
from diffuse.ir import Privilege, volume
from diffuse.kernels.body import operations
from diffuse.kernels.body.compose import alike, compose
from diffuse.kernels.build.compiler import compiler
from diffuse.kernels.llvm import pipeline
from diffuse.observe import trace
from diffuse.observe.floaterrors import geterr, report, suspects
from diffuse.runtime.base import CodeUse, Fate, Instance, Launch
from diffuse.service.client import Unavailable
from diffuse.service.patience import patience
from diffuse.settings import config
from diffuse.stream.group import Group
from diffuse.stream.layers import plans_of, shared, tasks_of, telling
from diffuse.stream.layout import joined, replayed
from diffuse.stream.liveness import liveness
from diffuse.stream.losses import follow, lose
from diffuse.stream.pairs import Pair, argument_stores, begins, formed, header
from diffuse.stream.parts import Parts
from diffuse.stream.plan import Plan, described, kept
from diffuse.stream.replay import Replay
from diffuse.stream.stores import Stores
from diffuse.stream.window import Window

READ = Privilege.READ
MOST_SITES = 16
"""The most places of the program that a plan names."""
MOST_PLANS = 4096
"""The most plans that are kept."""


class Forwarder:
    """Forwards groups from the window to the runtime."""

    def __init__(self, stores: Stores, window: Window) -> None:
        self.stores = stores
        self._parts = Parts(stores)
        self.window = window
        self.plans: list[Plan] = []
        """At most `MOST_PLANS`, newest last."""
        self._ran: dict[tuple[Plan, Any], Group] = {}
        """What ran since floating-point errors were last reported: for each plan and line, the last group."""
        self._taken: list[Group] = []
        """Groups that have left the window but are not launched yet."""
        self._current: tuple[Group, ...] = ()
        """The groups that are being launched."""
        self._before = 0
        """The runtime's mark before that launch."""
        self._awaited = -1
        """The number of the last group that waited for code."""
        self._interrupt = "KeyboardInterrupt"
        """The name of the last interrupt: an exception that is no error of a task."""
        self.thorough = False
        """Are results computed that nobody holds any more, for the sake of their floating-point errors?"""
        self._forwarding: Any = threading.RLock()
        """Held while a group is forwarded, and released wherever an interrupt comes."""

    def forward(self) -> None:
        """Launch the oldest group; with its successor, if the two can run as one pass over memory.

        When its tasks fail, their results are lost.  An interrupt loses nothing: see `mend`.
        """
        with self._forwarding:
            try:
                group = self._take()
                try:
                    if not self._may_have_partner(group):
                        self._run(group)
                    elif not self._with_partner(group, replay := self._planned(group)):
                        self._run(group, replay)
                except MemoryError as error:
                    from diffuse.stream.shortage import one_by_one

                    one_by_one(error, self._taken, self._before, self.window, self._run)
                self.stores.forwarded()
            except BaseException as error:
                self._interrupt = error.__class__.__name__
                if isinstance(error, Exception) and not of_handler(error):
                    for unfinished in self._taken:
                        if unfinished not in self.window.closed:
                            lose(self.stores, unfinished.tasks, error)
                    self._taken.clear()
                    self.stores.forwarded()
                raise

    @property
    def busy(self) -> bool:
        """Is a group being forwarded, whose host function may record?"""
        return bool(self._forwarding._is_owned())

    def mend(self) -> None:
        """After an interrupt at any moment: tasks that the runtime did not begin return to the front of the
        window.  The results of those that were cut off halfway are lost.

        The launches of Local are never cut off: the pool goes on, and the program's own thread completes what
        it interprets or calls first (interrupts.py).
        """
        current = [group for group in self._current if group in self._taken]
        if current:
            fate = self.stores.runtime.fate(self._before)
            if fate is Fate.PENDING:
                self.stores.take_back()
            else:
                for group in current:
                    if fate is Fate.LOST:
                        lose(self.stores, group.tasks, self._interrupt)
                    self._taken.remove(group)
        for group in reversed(self._taken):
            if group not in self.window.closed:
                self.window.closed.appendleft(group)
        self._taken.clear()

    def _begins(self, groups: tuple[Group, ...]) -> None:
        """Record that these groups are launched next."""
        self._current, self._before = groups, self.stores.runtime.mark()

    @property
    def unreported(self) -> bool:
        """Has anything run whose floating-point errors have not been reported?"""
        return bool(self._ran or self._parts.called)

    def report_flags(self, modes: dict[str, Any] | None = None) -> None:
        """Warn about floating-point errors of everything that ran, under these error modes or the current
        ones; call after a fence."""
        ran, self._ran = self._ran, {}
        called = self._parts.suspects()
        flags = self.stores.runtime.flags()
        if flags:
            report(flags, [*[suspects(group.tasks, operations.errors) for group in ran.values()], called],
                   modes or geterr())

    def _take(self) -> Group:
        group = self.window.closed[0]
        self._taken.append(group)
        self.window.take()
        self.stores.running.update(group.slots)
        self.stores.taken = group.number
        return group

    def _planned(self, group: Group) -> Replay:
        """Find or make the plan of a group for its live stores, and the replay for its views."""
        plan, trail = self.plan_of(group, self.stores.taken), group.trail
        if plan.kernel is not None and plan.kernel.native is None and self._awaited != group.number:
            from diffuse.stream.followers import plan_followers  # not in programs of small arrays

            plan_followers(self)
            plan.await_code(self.stores.runtime.code, telling(plan.telling, group, plan.layers))
            self._awaited = group.number  # a group that found no partner comes here again
        found: Replay | None = trail.replays.get(plan)
        if found is None:
            found = trail.replays[plan] = Replay(plan, telling(plan.telling, group, plan.layers), group.slots)
        return found

    def plan_of(self, group: Group, taken: int) -> Plan:
        """Find or make the plan of a group for its live stores, once groups up to this number are taken."""
        plans, live = group.trail.plans, liveness(group, self.stores, taken)
        group.trail.live = live
        if self.thorough:
            made = results(group.tasks)
            live = bytes([bit or store in made for store, bit in zip(group.slots, live, strict=True)])
        if plans is None:
            plans = group.trail.plans = plans_of(group, self.stores.runtime)
        plan: Plan | None = plans.get(live)
        if plan is None:
            plan, live = self._regardless(group, live, plans)
        if config.check:
            from diffuse.stream.recheck import recheck

            recheck(group, live, plan)
        if plan is None or not plan.holds(group.recorded):
            plan = plans[live] = self._plan(group, live, taken, plan)
            plan.places.append((plans, live))
        return plan

    def _regardless(self, group: Group, live: bytes, plans: dict[bytes, Any]) -> tuple[Plan | None, bytes]:
        """Look up the plan of a group with more stores counted as live: those that it only reads and whose
        memory no result can reuse.  Their liveness does not affect the plan, and often depends on timing.
        Returns the plan, if there is one, and the liveness flags."""
        frames, slots = self.stores.storages, group.slots
        written = {access.store.id for task in group.tasks for access in task.accesses
                   if access.privilege is not READ}
        fresh = {frames[store] for store in written}
        chosen = bytes([bit or frames[store] not in fresh for store, bit in zip(slots, live, strict=True)])
        plan: Plan | None = plans.get(chosen)
        if plan is not None and chosen != live:
            plan.places.append((plans, live))
            plans[live] = plan
        return plan, chosen

    def _plan(self, group: Group, bits: bytes, taken: int, before: Plan | None = None) -> Plan:
        """Make a plan.  `before` is one whose merged scalars differ now: its successor keeps those apart."""
        trace.count("plans")
        live = {store for store, bit in zip(group.slots, bits, strict=True) if bit}
        from diffuse.stream.streaming import streams  # not in programs of small arrays

        gone = temporaries(group.tasks, (), live)
        equal = alike(group.tasks, None if before is None else before.equal)
        layers = group.trail.layers
        tasks = tasks_of(group, layers)
        composition = compose(tasks, gone, shared(layers, tasks, equal) if layers else equal)
        runtime, body = self.stores.runtime, composition.body
        target = runtime.target
        gains = target == "host" and (runtime.addressed or runtime.splits or not runtime.pipelines)
        users = self.stores.users
        resting = {store for store in group.slots if store in self.stores.alive and users[store] <= taken}
        if gains and streams(composition, tasks, live, resting, runtime.ranks):
            body = replace(body, streams=True)
        if runtime.splits:
            from diffuse.stream.gathers import split  # for ranks of Legate's alone

            body = split(body)
            composition = composition._replace(body=body)
        kernel = compiler.kernel(body, target) if body.loops else None
        plan = Plan(composition, kernel, tasks, live, str(group.reason),
                    partial(described, group.trail.templates, group.recorded), equal, gone, layers)
        self.plans.append(plan)
        if len(self.plans) > MOST_PLANS:
            self.plans = kept(self.plans)
            self.window.memo.forget_trails()  # trails hold the replays of plans
        trace.event("plan", lambda: f"{trace.quantity(plan.tasks, 'operation')} -> 1 task, "
                                    f"{trace.quantity(plan.loops, 'loop')}, "
                                    f"{trace.quantity(plan.vanished, 'temporary', 'temporaries')} vanished; "
                                    f"ended by: {plan.reason}\n{plan.text}")
        return plan

    def _run(self, group: Group, replay: Replay | None = None) -> None:
        self._begins((group,))
        if not self.stores.lost or follow(self.stores, group.tasks):
            if group.opaque:
                self._parts.call(group.tasks[0])
                if self.stores.sides is not None:
                    self._compare(0)
            else:
                self._run_plan(replay or self._planned(group), group)
        self._done((group,))

    def _done(self, groups: tuple[Group, ...]) -> None:
        """Record that these groups were launched."""
        self.stores.given.clear()
        for group in groups:
            self._taken.remove(group)
        self._current = ()

    def _run_plan(self, replay: Replay, group: Group) -> None:
        plan, stores = replay.plan, self.stores
        if plan.kernel is None:
            return
        self._count(plan, group)
        if not stores.runtime.addressed:
            self._distribute(replay, group)
            return
        ids = list(group.slots)
        if replay.donations and plan.kernel.native is not None:
            for end, begin in replay.donations:
                if stores.donate(ids[end], ids[begin]):
                    trace.counters["donated"] += 1
        create = stores.runtime.create
        scratch = [create(n) for n in replay.partials]
        partials = [x.address for x in scratch]
        fine = plan.kernel.native is not None and stores.runtime.host_sees
        addresses, used = stores.places([ids[slot] for slot in (replay.shared if fine else replay.used)],
                                        scratch)
        values = replay.values(group.recorded, addresses, partials, fine)
        watched = stores.watched(ids) if stores.shown and not stores.runtime.host_sees else ()
        points = replay.pieces if fine else replay.points
        launch = Launch(plan.kernel, values, points, (*used, *scratch), work=replay.work, watched=watched,
                        temporary=plan.composition.temporary)
        self._launch(launch, scratch)

    def _distribute(self, replay: Replay, group: Group) -> None:
        """Launch on a runtime that places memory itself, with offsets in place of addresses."""
        plan = replay.plan
        assert plan.kernel is not None
        found = replayed(replay, group, self.stores.storages)
        values = replay.values(group.recorded, (0,) * len(replay.used), (0,) * len(found.scratch))
        sources = plan.composition.arguments
        instances = tuple(self.stores.instance(group.recorded[t][1][k]) for t, k in sources)
        runtime = self.stores.runtime
        watched = self.stores.watched(group.slots) if runtime.target != "host" or found.gathers else ()
        runtime.launch(Launch(plan.kernel, values, replay.points, (), found, instances, watched=watched))

    def _launch(self, launch: Launch, scratch: list[Instance]) -> None:
        runtime = self.stores.runtime
        runtime.launch(launch)
        if self.stores.sides is not None:
            self._compare(launch.work)
        for instance in scratch:
            runtime.release(instance)

    def _compare(self, work: int) -> None:
        """Compare the two sides of a program on a device.  If the other one is ahead, the next task is added
        by the queue, which changes sides if that pays."""
        sides = self.stores.sides
        assert sides is not None
        sides.met()
        if config.sides:
            sides.launched(self.stores.runtime, work)
        if sides.asks:
            self.window.size = 0

    def _count(self, plan: Plan, group: Group) -> None:
        """Count a launch of a plan, and keep its group for the report of floating-point errors."""
        if plan.launches:
            trace.counters["replays"] += 1
        plan.launches += 1
        plan.used = trace.counters["launched"]
        first = group.recorded[0][3]
        if first not in plan.sites and len(plan.sites) < MOST_SITES:
            plan.sites[first] = group.recorded[-1][3]
        self._ran[plan, first] = group
        trace.counters["launched"] += 1
        if plan.kernel is not None and plan.kernel.native is None:
            trace.counters["interpreted"] += 1

    # -- two groups as one pass --------------------------------------------------------------------------

    def _may_have_partner(self, group: Group) -> bool:
        """May a group and its successor run as one pass, as far as is known without a plan?"""
        closed = self.window.closed
        if not closed or group.opaque or self.stores.lost:
            return False
        return closed[0].domain == group.domain and volume(group.domain) > 1 and not closed[0].opaque

    def _with_partner(self, group: Group, replay: Replay) -> bool:
        """Launch a group and its successor as one pass, if only the successor reads what the first one
        writes."""
        closed, stores, plan = self.window.closed, self.stores, replay.plan
        if plan.kernel is None or plan.kernel.native is None or not plan.rowwise or plan.kernel.body.streams:
            return False
        if not stores.runtime.pipelines:
            return False
        made = {group.recorded[t][1][k] for t, k in plan.stored}
        if not made.isdisjoint(stores.alive):
            return False
        if any(store not in closed[0].slots or stores.users[store] > closed[0].number for store in made):
            return False
        following = self._take()
        second = self._planned(following)
        if not self._pipelined(replay, group, second, following):
            # the first group was planned with its results as live, which still is right: it runs first
            stores.taken = group.number
            self._run(group, replay)
            stores.taken = following.number
            self._run(following, second)
        else:
            self._done((group, following))
        return True

    def _pipelined(self, first: Replay, one: Group, second: Replay, two: Group) -> bool:
        """Launch two groups as one pass; False if their rows do not allow it."""
        upper, lower, stores = first.plan, second.plan, self.stores
        if upper.kernel is None or lower.kernel is None or lower.kernel.native is None or not lower.rowwise:
            return False
        ids = argument_stores(upper, one, lower, two)
        known = formed(first, one, second, two, ids)
        if known is None or stores.runtime.ranks > 1 and not known.shape.divides:
            return False
        needed = stores.runtime.code is CodeUse.NEEDED
        try:  # all ranks run a pair, or none does; alone two kernels can do without the driver
            driver = pipeline.driver(None if needed else patience(0, 0, 0, True))
        except Unavailable:
            return False
        if driver is None:
            return False
        addressed = stores.runtime.addressed
        inner = {one.recorded[t][1][k] for t, k in upper.stored}
        found = None
        if not addressed:
            layouts = replayed(first, one, stores.storages), replayed(second, two, stores.storages)
            found = joined(*layouts, begins(upper), known.shape.run, ids, inner, upper.layouts)
            if not stores.runtime.passes(found):
                return False
        self._begins((one, two))
        scratch: list[Instance] = []

        def memory(nbytes: int) -> int:
            scratch.append(stores.runtime.scratch(nbytes))
            return scratch[-1].address

        def block(replay: Replay, group: Group) -> bytes:
            assert replay.plan.kernel is not None
            ids = list(group.slots)
            places = [stores.instance(ids[slot]).address if addressed and ids[slot] not in inner else 0
                      for slot in replay.used]
            return replay.plan.kernel.pack(replay.values(group.recorded, places, ()))

        blocks = block(first, one), block(second, two)
        values: Any = header(known, upper, lower, blocks, memory)
        self._count(upper, one)
        self._count(lower, two)
        trace.counters["pipelined"] += 1
        instances: tuple[Instance, ...] = ()
        touched = [stores.instances[store] for store in (*one.slots, *two.slots) if store in stores.instances]
        if not addressed:
            instances = tuple([stores.instance(store) for store in ids if store not in inner])
        keep = upper.kernel, lower.kernel, *touched, *scratch
        self._launch(Launch(Pair(driver), values, second.points, keep, found, instances,
                            first.work + second.work), scratch)
        return True
