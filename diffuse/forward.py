"""From a closed group to launches: its plan is made or replayed, what is seen gets memory, kernels run."""

from __future__ import annotations

from typing import Any

from diffuse import trace
from diffuse.floaterrors import report, suspects
from diffuse.ir import IndexTask, Privilege, volume
from diffuse.kernels import loops
from diffuse.kernels.compiler import compiler
from diffuse.kernels.compose import alike, compose
from diffuse.layout import joined, layout
from diffuse.pipeline import Pair, begins, header, pair
from diffuse.plan import Plan
from diffuse.pretty import window_text
from diffuse.runtime.base import Instance, Launch, Layout
from diffuse.stores import Stores
from diffuse.temporaries import temporaries
from diffuse.window import Group, Window

READ = Privilege.READ
INTERPRETED = 1e-9
"""Seconds that interpreting takes, at least, per operation and element."""
WORTH_WAITING = 0.01
"""Seconds.  A task that would be interpreted for longer waits for its kernel, but no longer than that."""


class Forwarder:
    """Takes groups from the window to the runtime."""

    def __init__(self, stores: Stores, window: Window) -> None:
        self.stores = stores
        self.window = window
        self.plans: list[Plan] = []
        self._ran: dict[tuple[Plan, Any], list[IndexTask]] = {}
        """What ran since floating-point errors were asked for: of each plan and line, the last tasks."""
        self._taken: list[Group] = []
        """Groups that are neither in the window any more nor launched."""

    def forward(self) -> None:
        """Run the oldest group; its successor with it, where the two make one pass over memory."""
        try:
            group = self._take()
            if not self._with_partner(group):
                self._run(group)
        except BaseException as error:
            for unfinished in self._taken:
                if unfinished not in self.window.closed:
                    self.stores.lose(unfinished.tasks, error)
            raise
        finally:
            self._taken.clear()
            self.stores.forwarded()

    @property
    def unreported(self) -> bool:
        """Did anything run whose floating-point errors nobody asked for yet?"""
        return bool(self._ran)

    def report_flags(self) -> None:
        """Warn about floating-point errors of everything that ran; after a fence."""
        ran, self._ran = self._ran, {}
        flags = self.stores.runtime.flags()
        if flags:
            report(flags, [suspects(tasks) for tasks in ran.values()])

    @property
    def busy(self) -> bool:
        """Is a group being forwarded?"""
        return bool(self._taken)

    def _take(self) -> Group:
        group = self.window.closed[0]
        self._taken.append(group)
        self.window.take()
        self.stores.running.update(group.numbering.slots)
        self.stores.retire(group.tasks)
        return group

    def _planned(self, group: Group) -> Plan:
        """The plan of a group, for what is live now."""
        alive, pending = self.stores.alive, self.stores.pending
        bits = 0
        for store, slot in group.numbering.slots.items():
            if store in alive or store in pending:
                bits |= 1 << slot
        plan: Plan | None = group.node.plans.get(bits)
        if plan is None or not plan.holds(group.tasks):
            plan = group.node.plans[bits] = self._plan(group, bits, plan)
        if plan.kernel is not None and plan.kernel.native is None:
            self._await(plan, group.tasks)
        return plan

    def _await(self, plan: Plan, tasks: list[IndexTask]) -> None:
        """Wait for a plan's machine code: as long as interpreting would take, if that is worth it at all.

        Where memory is not shared every rank waits until it is there: interpreting would take the data to
        the host and back.
        """
        assert plan.kernel is not None
        if not self.stores.runtime.shared:
            plan.kernel.wait(None)
        elif self.stores.runtime.name == "local":
            seconds = plan.work(tasks) * INTERPRETED
            if seconds > WORTH_WAITING:
                plan.kernel.wait(seconds)

    def _plan(self, group: Group, bits: int, before: Plan | None = None) -> Plan:
        """A new plan; after one whose scalars are not all equal any more, without what differs now."""
        trace.count("plans")
        live = {store for store, slot in group.numbering.slots.items() if bits >> slot & 1}
        gone = temporaries(group.tasks, (), live)
        equal = alike(group.tasks, None if before is None else before.equal)
        composition = compose(group.tasks, gone, loops.fuse, equal)
        kernel = compiler.kernel(composition.body) if composition.body.loops else None
        plan = Plan(composition, kernel, group.tasks, live, str(group.reason), window_text(group.tasks),
                    equal)
        self.plans.append(plan)
        trace.event("plan", lambda: f"{plan.tasks} tasks fused into one of {plan.loops} loops, "
                                    f"{plan.vanished} temporaries vanished; ended by: {plan.reason}\n"
                                    f"{plan.text}")
        return plan

    def _run(self, group: Group) -> None:
        if not self.stores.lost or self.stores.follow_losses(group.tasks):
            if group.opaque:
                self._call(group.tasks[0])
            else:
                self._run_plan(self._planned(group), group.tasks)
        self._taken.remove(group)

    def _run_plan(self, plan: Plan, tasks: list[IndexTask]) -> None:
        if plan.kernel is None:
            return
        self._count(plan, tasks)
        if not self.stores.runtime.shared:
            self._distribute(plan, tasks)
            return
        if plan.donations and plan.kernel.native is not None:
            self._donate(plan, tasks)
        create = self.stores.runtime.create
        partials = [create(n) for n in plan.partial_bytes(tasks)]
        values = plan.values(tasks, self.stores.address, [p.address for p in partials])
        keep = (*self._touched(plan, tasks), *partials)
        self._launch(Launch(plan.kernel, values, values[0], keep), partials)

    def _distribute(self, plan: Plan, tasks: list[IndexTask]) -> None:
        """Launch with offsets in the place of addresses: the runtime knows where stores lie."""
        assert plan.kernel is not None
        found = layout(plan, tasks, self.stores.storages)
        values = plan.values(tasks, lambda _: 0, (0,) * len(found.scratch))
        sources = plan.composition.arguments
        instances = tuple(self.stores.instance(tasks[t].accesses[k].store.id) for t, k in sources)
        self.stores.runtime.launch(Launch(plan.kernel, values, values[0], (), found, instances))

    def _donate(self, plan: Plan, tasks: list[IndexTask]) -> None:
        """Let new stores take over the memory of those that end here."""
        stores = self.stores
        for (t, k), (u, m) in plan.donations:
            old, fresh = tasks[t].accesses[k].store.id, tasks[u].accesses[m].store.id
            instance = stores.instances.get(old)
            if (instance is not None and instance.private and fresh not in stores.instances
                    and not stores.seen(old) and instance.nbytes == stores.sizes[fresh]):
                stores.given[old] = stores.instances[fresh] = stores.instances.pop(old)
                trace.counters["donated"] += 1

    def _launch(self, launch: Launch, scratch: list[Instance]) -> None:
        runtime = self.stores.runtime
        runtime.launch(launch)
        for instance in scratch:
            runtime.release(instance)

    def _count(self, plan: Plan, tasks: list[IndexTask]) -> None:
        """One more launch of a plan, whose kernel gets compiled if it is not yet."""
        if plan.launches:
            trace.counters["replays"] += 1
        plan.launches += 1
        self._ran[plan, tasks[0].where] = tasks
        trace.counters["launched"] += 1
        if plan.kernel is not None and plan.kernel.native is None:
            compiler.kernel(plan.kernel.body)
            if plan.kernel.native is None:
                trace.counters["interpreted"] += 1

    def _touched(self, plan: Plan, tasks: list[IndexTask]) -> list[Instance]:
        instances = self.stores.instances
        ids = [tasks[t].accesses[k].store.id for t, k in plan.composition.arguments]
        return [instances[store] for store in ids if store in instances]

    def _call(self, task: IndexTask) -> None:
        """A host function, over NumPy arrays of its operands."""
        import numpy

        trace.counters["launched"] += 1
        arrays = []
        for access in task.accesses:
            view: Any = access.map
            write = access.privilege is not READ
            memory = self.stores.runtime.host(self.stores.instance(access.store.id), write)
            arrays.append(numpy.ndarray(view.shape, view.dtype, memory, view.offset, view.strides))
        function = task.scalars[0].value
        self.stores.runtime.call(lambda: function(*arrays))

    # -- two groups as one pass --------------------------------------------------------------------------

    def _with_partner(self, group: Group) -> bool:
        """Run a group together with the next one, if everything it makes is for that one alone."""
        closed, stores = self.window.closed, self.stores
        if not closed or group.opaque or stores.lost or not stores.runtime.pipelines:
            return False
        domain = group.tasks[0].domain
        if closed[0].tasks[0].domain != domain or volume(domain) <= 1 or closed[0].opaque:
            return False
        plan = self._planned(group)
        if plan.kernel is None or plan.kernel.native is None or not plan.rowwise:
            return False
        made = {group.tasks[t].accesses[k].store.id for t, k in plan.stored}
        if not made.isdisjoint(stores.alive):
            return False
        uses = [access.store.id for task in closed[0].tasks for access in task.accesses]
        if any(stores.pending.get(store) != uses.count(store) for store in made):
            return False
        following = self._take()
        second = self._planned(following)
        if not self._pipelined(plan, group, second, following):
            # the first group was planned with what it makes as live, which still is right: it runs first
            stores.expect_all(following.tasks)
            self._run(group)
            stores.retire(following.tasks)
            self._run(following)
        return True

    def _pipelined(self, first: Plan, one: Group, second: Plan, two: Group) -> bool:
        """Launch two groups as one pass; False where their rows do not allow it."""
        if first.kernel is None or second.kernel is None:
            return False
        if second.kernel.native is None or not second.rowwise:
            return False
        shape = pair(first, one.tasks, second, two.tasks)
        if shape is None:
            return False
        scratch: list[Instance] = []
        shared = self.stores.runtime.shared
        inner = {one.tasks[t].accesses[k].store.id for t, k in first.stored}

        def memory(nbytes: int) -> int:
            scratch.append(self.stores.runtime.scratch(nbytes))
            return scratch[-1].address

        def address(store: int) -> int:
            return self.stores.address(store) if shared and store not in inner else 0

        blocks = (first.kernel.pack(first.values(one.tasks, address, ())),
                  second.kernel.pack(second.values(two.tasks, address, ())))
        values: Any = header(shape, first, one.tasks, second, two.tasks, blocks, memory)
        self._count(first, one.tasks)
        self._count(second, two.tasks)
        trace.counters["pipelined"] += 1
        points = volume(two.tasks[0].domain)
        found: Layout | None = None
        instances: tuple[Instance, ...] = ()
        keep = (first.kernel, second.kernel, *self._touched(first, one.tasks),
                *self._touched(second, two.tasks), *scratch)
        if not shared:
            found, instances = self._joined(first, one, second, two, inner)
        self._launch(Launch(Pair(), values, points, keep, found, instances), scratch)
        return True

    def _joined(self, first: Plan, one: Group, second: Plan, two: Group, inner: set[int]
                ) -> tuple[Layout, tuple[Instance, ...]]:
        """The layout of a pass over two groups, and the instances of its arguments."""
        storages = self.stores.storages
        ids = [group.tasks[t].accesses[k].store.id
               for plan, group in ((first, one), (second, two)) for t, k in plan.composition.arguments]
        found = joined(layout(first, one.tasks, storages), layout(second, two.tasks, storages), begins(first),
                       ids, inner, first.layouts)
        return found, tuple(self.stores.instance(store) for store in ids if store not in inner)
