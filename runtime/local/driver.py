"""The functions that a thread of the pool runs, as LLVM IR: claim a point, run it, finish a launch, sleep.

`native` expands two macros: `FIELD a` to the address %a of a field of the pool, and `OF %slot a` to the
address %slot.a of a field of a launch's slot in the ring.  The functions that the program calls are in
calls.py.

Waiting follows one pattern: read the event word, register as a sleeper, check the condition again, and sleep
on the event word unless it has changed.  Whoever changes the condition checks for sleepers after the change.
All of these accesses are sequentially consistent, so no wake-up is lost.
"""

SYSTEM = """
define internal void @wake(ptr %event, i32 %most) noinline {
  %old = atomicrmw add ptr %event, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 @FUTEX, ptr %event, i32 @WAKE, i32 %most, ptr null, ptr null, i32 0)
  ret void
}

define internal void @sleep(ptr %event, i32 %seen, ptr %limit) noinline {
  %r = call i64 (i64, ...) @syscall(i64 @FUTEX, ptr %event, i32 @WAIT, i32 %seen, ptr %limit, ptr null, i32 0)
  ret void
}

define internal ptr @slot(ptr %pool, i64 %launch) alwaysinline {
  FIELD mask ring
  %m = load i64, ptr %mask
  %i = and i64 %launch, %m
  %at = mul i64 %i, @SLOT_BYTES
  %slot = getelementptr i8, ptr %ring, i64 %at
  ret ptr %slot
}
"""

# The ticket of a claimed point, or -1 when there is none to claim.
CLAIM = """
define internal i64 @claim(ptr %pool) alwaysinline {
entry:
  FIELD ticket submitted
  br label %look
look:
  %t = load atomic i64, ptr %ticket seq_cst, align 8
  %launch = lshr i64 %t, @BITS
  %end = load atomic i64, ptr %submitted seq_cst, align 8
  %none = icmp eq i64 %launch, %end
  br i1 %none, label %nothing, label %open
open:
  %slot = call ptr @slot(ptr %pool, i64 %launch)
  OF %slot points
  %points = load atomic i64, ptr %slot.points monotonic, align 8
  %p = and i64 %t, @MOST
  %left = icmp ult i64 %p, %points
  br i1 %left, label %take, label %taken
take:
  %next = add i64 %t, 1
  %pair = cmpxchg ptr %ticket, i64 %t, i64 %next seq_cst seq_cst
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %claimed, label %look
taken:
  ; %points may be another launch's by now: believe it only if the ticket has not moved
  %again = load atomic i64, ptr %ticket seq_cst, align 8
  %same = icmp eq i64 %again, %t
  br i1 %same, label %nothing, label %look
claimed:
  ret i64 %t
nothing:
  ret i64 -1
}
"""

# A thread that claims a point and leaves others wakes one more: the submitter pays for one wake only.
# For a light launch nobody is woken.
RUN = """
define internal void @run(ptr %pool, i64 %t) noinline {
entry:
  FIELD sleepers work flags
  %saved = alloca [64 x i8], align 16
  %launch = lshr i64 %t, @BITS
  %p = and i64 %t, @MOST
  %slot = call ptr @slot(ptr %pool, i64 %launch)
  OF %slot kernel points block done light first
  %points = load i64, ptr %slot.points
  %next = add i64 %p, 1
  %last = icmp eq i64 %next, %points
  br i1 %last, label %ready, label %others
others:
  %s = load atomic i32, ptr %sleepers seq_cst, align 4
  %asleep = icmp ne i32 %s, 0
  %light = load i64, ptr %slot.light
  %heavy = icmp eq i64 %light, 0
  %rouses = and i1 %asleep, %heavy
  br i1 %rouses, label %rouse, label %ready
rouse:
  call void @wake(ptr %work, i32 1)
  br label %ready
ready:
  %kernel = load ptr, ptr %slot.kernel
  %block = load ptr, ptr %slot.block
  %first = load i64, ptr %slot.first
  %point = add i64 %first, %p
  call void @enter(ptr %saved)
  call void %kernel(ptr %block, i64 %point)
  %seen = call i32 @leave(ptr %saved)
  call void @note(ptr %flags, i32 %seen)
  %d = atomicrmw add ptr %slot.done, i64 1 acq_rel
  %done = add i64 %d, 1
  %all = icmp eq i64 %done, %points
  br i1 %all, label %close, label %end
close:
  call void @conclude(ptr %pool, ptr %slot, i64 %launch)
  br label %end
end:
  ret void
}

define internal void @note(ptr %flags, i32 %seen) alwaysinline {
  %old = load atomic i32, ptr %flags monotonic, align 4
  %union = or i32 %old, %seen
  %known = icmp eq i32 %union, %old
  br i1 %known, label %end, label %add
add:
  %was = atomicrmw or ptr %flags, i32 %seen monotonic
  br label %end
end:
  ret void
}
"""

FINISH = """
define internal void @conclude(ptr %pool, ptr %slot, i64 %launch) {
entry:
  FIELD ticket wanted work flags
  OF %slot finish block
  %saved = alloca [64 x i8], align 16
  %finish = load ptr, ptr %slot.finish
  %plain = icmp eq ptr %finish, null
  br i1 %plain, label %advance, label %combine
combine:
  %block = load ptr, ptr %slot.block
  call void @enter(ptr %saved)
  call void %finish(ptr %block)
  %seen = call i32 @leave(ptr %saved)
  call void @note(ptr %flags, i32 %seen)
  br label %advance
advance:
  %following = add i64 %launch, 1
  %t = shl i64 %following, @BITS
  store atomic i64 %t, ptr %ticket seq_cst, align 8
  %w = load atomic i64, ptr %wanted seq_cst, align 8
  %early = icmp ult i64 %following, %w
  br i1 %early, label %end, label %tell
tell:
  %old = atomicrmw xchg ptr %wanted, i64 -1 seq_cst
  call void @wake(ptr %work, i32 2147483647)
  br label %end
end:
  ret void
}
"""

# What a worker and a waiting program do alike: claim a point and run it, or look again for a while; then read
# the event word, register as a sleeper, and try once more.  Both jump to `fresh` after running a point.
SEEK = """\
  %t = call i64 @claim(ptr %pool)
  %none = icmp eq i64 %t, -1
  br i1 %none, label %idle, label %found
found:
  call void @run(ptr %pool, i64 %t)
  br label %fresh
idle:
  %tired = icmp eq i64 %looks, 0
  br i1 %tired, label %announce, label %again
again:
  call void @pause()
  %fewer = sub i64 %looks, 1
  br label %look
announce:
  %seen = load atomic i32, ptr %work seq_cst, align 4
"""
REGISTER = """\
  %s = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %late = call i64 @claim(ptr %pool)
  %still = icmp eq i64 %late, -1
  br i1 %still, label %ending, label %awake
awake:
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  call void @run(ptr %pool, i64 %late)
  br label %fresh
"""

WORKER = """
define ptr @worker(ptr %pool) {
entry:
  FIELD work sleepers stopping spin named threads
  %thread = call i64 (i64, ...) @syscall(i64 @THREAD)
  %word = trunc i64 %thread to i32
  %place = atomicrmw add ptr %named, i32 1 seq_cst
  %listed = icmp ult i32 %place, @NAMED
  br i1 %listed, label %enlist, label %fresh
enlist:
  %entry.place = getelementptr i32, ptr %threads, i32 %place
  store atomic i32 %word, ptr %entry.place seq_cst, align 4
  br label %fresh
fresh:
  %most = load i64, ptr %spin
  br label %look
look:
  %looks = phi i64 [ %most, %fresh ], [ %fewer, %again ]
""" + SEEK + REGISTER + """ending:
  %stop = load atomic i32, ptr %stopping seq_cst, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %leave, label %rest
rest:
  call void @sleep(ptr %work, i32 %seen, ptr null)
  %s2 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %fresh
leave:
  %s3 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  ret ptr null
}
"""
