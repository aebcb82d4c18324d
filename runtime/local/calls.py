"""The functions of the thread pool that the program calls, as LLVM IR: submit a launch, wait, stop.

They use the functions and the macros of driver.py.
"""

from diffuse.runtime.local.driver import REGISTER, SEEK

# Workers keep off the submitter's processor.  A system with an idle processor may still run a thread that it
# wakes on the processor of the one that wakes it: Linux does so on virtual machines, where a processor that
# has slept for some 0.2 ms counts as taken away by the host.  It parts the two threads after 1 to 100 ms, and
# launches take less.  So the submitter takes its own processor out of each worker's set of processors.  A set
# that has changed since, as somebody else set it, becomes the one that is narrowed.
APART = """
define internal void @keep_off(ptr %pool, i32 %here) noinline {
entry:
  FIELD avoided kept named threads everywhere narrowed
  %set = alloca [@MASK x i8], align 8
  %all = load atomic i32, ptr %named seq_cst, align 4
  %few = icmp ult i32 %all, @NAMED
  %most = select i1 %few, i32 %all, i32 @NAMED
  br label %each
each:
  %k = phi i32 [ 0, %entry ], [ %next, %get ], [ %next, %move ]
  %over = icmp eq i32 %k, %most
  br i1 %over, label %done, label %look
look:
  %place = getelementptr i32, ptr %threads, i32 %k
  %thread = load atomic i32, ptr %place seq_cst, align 4
  %absent = icmp eq i32 %thread, 0
  br i1 %absent, label %done, label %get
get:
  %next = add i32 %k, 1
  call void @llvm.memset.p0.i64(ptr %set, i8 0, i64 @MASK, i1 false)
  %n = call i64 (i64, ...) @syscall(i64 @GETTING, i32 %thread, i64 @MASK, ptr %set)
  %known = icmp sgt i64 %n, 0
  br i1 %known, label %compare, label %each
compare:
  %difference = call i32 @memcmp(ptr %set, ptr %narrowed, i64 @MASK)
  %same = icmp eq i32 %difference, 0
  br i1 %same, label %move, label %adopt
adopt:
  call void @llvm.memcpy.p0.p0.i64(ptr %everywhere, ptr %set, i64 @MASK, i1 false)
  br label %move
move:
  call void @without(ptr %set, ptr %everywhere, i32 %here)
  %r = call i64 (i64, ...) @syscall(i64 @SETTING, i32 %thread, i64 @MASK, ptr %set)
  br label %each
done:
  %off = phi i32 [ %all, %each ], [ %k, %look ]
  call void @without(ptr %narrowed, ptr %everywhere, i32 %here)
  store i32 %here, ptr %avoided
  store i32 %off, ptr %kept
  ret void
}

; A set of processors is another one but for a processor.
define internal void @without(ptr %set, ptr %other, i32 %processor) {
  call void @llvm.memcpy.p0.p0.i64(ptr %set, ptr %other, i64 @MASK, i1 false)
  %most = sub i32 @MASK, 1
  %byte = lshr i32 %processor, 3
  %within = call i32 @llvm.umin.i32(i32 %byte, i32 %most)
  %at = getelementptr i8, ptr %set, i32 %within
  %low = and i32 %processor, 7
  %bit = shl i32 1, %low
  %rest = xor i32 %bit, -1
  %old = load i8, ptr %at
  %word = zext i8 %old to i32
  %left = and i32 %word, %rest
  %new = trunc i32 %left to i8
  store i8 %new, ptr %at
  ret void
}
"""

# Queues a launch and returns its number, counted from 1; 0 if the ring is full; BAD_POINTS; NO_MEMORY.
# As a wake costs as much as a small launch, no thread is woken for a launch of one point before COMPANY of
# them are queued, and none for a light launch: these run after the next wake, or when somebody waits.
SUBMIT = """
define i64 @submit(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size) {
  %number = call i64 @queue(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size, i64 0,
                            i64 0)
  ret i64 %number
}

define i64 @submit_light(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size) {
  %number = call i64 @queue(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size, i64 1,
                            i64 0)
  ret i64 %number
}

; Of the points of a launch only so many, from %first on.
define i64 @submit_part(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size, i64 %first) {
  %number = call i64 @queue(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size, i64 0,
                            i64 %first)
  ret i64 %number
}

define internal i64 @queue(ptr %pool, ptr %kernel, ptr %finish, i64 %points, ptr %block, i64 %size,
                           i64 %light, i64 %first) {
entry:
  FIELD ticket submitted avoided kept named apart mask work sleepers
  %few = sub i64 %points, 1
  %bad = icmp uge i64 %few, @MOST
  br i1 %bad, label %wrong, label %room
room:
  %launch = load i64, ptr %submitted
  %t = load atomic i64, ptr %ticket seq_cst, align 8
  %running = lshr i64 %t, @BITS
  %ahead = sub i64 %launch, %running
  %m = load i64, ptr %mask
  %full = icmp ugt i64 %ahead, %m
  br i1 %full, label %later, label %place
place:
  %slot = call ptr @slot(ptr %pool, i64 %launch)
  OF %slot kernel finish points block capacity done light first
  %old = load ptr, ptr %slot.block
  %capacity = load i64, ptr %slot.capacity
  %small = icmp ult i64 %capacity, %size
  %big = icmp ugt i64 %capacity, @BIG
  %renew = or i1 %small, %big
  br i1 %renew, label %allocate, label %fill
allocate:
  call void @free(ptr %old)
  store ptr null, ptr %slot.block
  store i64 0, ptr %slot.capacity
  %more = add i64 %size, 511
  %wide = and i64 %more, -512
  %fresh = call ptr @aligned_alloc(i64 64, i64 %wide)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %nomemory, label %keep
keep:
  store ptr %fresh, ptr %slot.block
  store i64 %wide, ptr %slot.capacity
  br label %fill
fill:
  %to = phi ptr [ %old, %place ], [ %fresh, %keep ]
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %block, i64 %size, i1 false)
  store ptr %kernel, ptr %slot.kernel
  store ptr %finish, ptr %slot.finish
  store i64 0, ptr %slot.done
  store i64 %light, ptr %slot.light
  store i64 %first, ptr %slot.first
  store atomic i64 %points, ptr %slot.points monotonic, align 8
  %next = add i64 %launch, 1
  %parallel = icmp ugt i64 %points, 1
  %enough = load i32, ptr %apart
  %roomy = icmp ne i32 %enough, 0
  %parts = and i1 %parallel, %roomy
  br i1 %parts, label %compare, label %publish
compare:
  %here = call i32 @sched_getcpu()
  %there = load i32, ptr %avoided
  %off = load i32, ptr %kept
  %all = load atomic i32, ptr %named monotonic, align 4
  %stays = icmp eq i32 %here, %there
  %complete = icmp eq i32 %off, %all
  %settled = and i1 %stays, %complete
  br i1 %settled, label %publish, label %part
part:
  call void @keep_off(ptr %pool, i32 %here)
  br label %publish
publish:
  store atomic i64 %next, ptr %submitted seq_cst, align 8
  %s = load atomic i32, ptr %sleepers seq_cst, align 4
  %asleep = icmp ne i32 %s, 0
  %company = icmp uge i64 %ahead, @COMPANY
  %worth = or i1 %parallel, %company
  %heavy = icmp eq i64 %light, 0
  %useful = and i1 %worth, %heavy
  %rouses = and i1 %asleep, %useful
  br i1 %rouses, label %rouse, label %end
rouse:
  call void @wake(ptr %work, i32 1)
  br label %end
end:
  ret i64 %next
later:
  ret i64 0
wrong:
  ret i64 -1
nomemory:
  ret i64 -2
}
"""

# Returns 1 when `target` launches are done, 0 after `%limit` nanoseconds of sleep, or a signal.  The waiting
# thread runs points itself as long as there are any to claim, and sleeps where the workers sleep.  When it
# leaves, it hands on a wake that may have been meant for someone who would claim a point.
WAIT = """
define i64 @wait(ptr %pool, i64 %target, i64 %limit) {
entry:
  FIELD ticket wanted work sleepers spin
  %time = alloca { i64, i64 }
  %nanoseconds = getelementptr i8, ptr %time, i64 8
  store i64 0, ptr %time
  store i64 %limit, ptr %nanoseconds
  br label %fresh
fresh:
  %most = load i64, ptr %spin
  br label %look
look:
  %looks = phi i64 [ %most, %fresh ], [ %fewer, %again ]
  %reached = call i1 @reached(ptr %ticket, i64 %target)
  br i1 %reached, label %yes, label %try
try:
""" + SEEK + """  %w = atomicrmw umin ptr %wanted, i64 %target seq_cst
""" + REGISTER + """ending:
  %over = call i1 @reached(ptr %ticket, i64 %target)
  br i1 %over, label %leave, label %rest
rest:
  call void @sleep(ptr %work, i32 %seen, ptr %time)
  br label %leave
leave:
  %s2 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  %woken = call i1 @reached(ptr %ticket, i64 %target)
  br i1 %woken, label %pass, label %no
pass:
  %s3 = load atomic i32, ptr %sleepers seq_cst, align 4
  %more = call i1 @busy(ptr %pool)
  %asleep = icmp ne i32 %s3, 0
  %handed = and i1 %more, %asleep
  br i1 %handed, label %rouse, label %yes
rouse:
  call void @wake(ptr %work, i32 1)
  br label %yes
yes:
  ret i64 1
no:
  ret i64 0
}

define internal i1 @busy(ptr %pool) alwaysinline {
  FIELD ticket submitted
  %t = load atomic i64, ptr %ticket seq_cst, align 8
  %launch = lshr i64 %t, @BITS
  %end = load atomic i64, ptr %submitted seq_cst, align 8
  %busy = icmp ult i64 %launch, %end
  ret i1 %busy
}

define void @pauses(i64 %count) {
entry:
  br label %each
each:
  %left = phi i64 [ %count, %entry ], [ %fewer, %each ]
  call void @pause()
  %fewer = sub i64 %left, 1
  %end = icmp eq i64 %fewer, 0
  br i1 %end, label %over, label %each
over:
  ret void
}

define internal i1 @reached(ptr %ticket, i64 %target) alwaysinline {
  %t = load atomic i64, ptr %ticket seq_cst, align 8
  %done = lshr i64 %t, @BITS
  %yes = icmp uge i64 %done, %target
  ret i1 %yes
}
"""

STOP = """
define void @stop(ptr %pool) {
  FIELD stopping work
  store atomic i32 1, ptr %stopping seq_cst, align 4
  call void @wake(ptr %work, i32 2147483647)
  ret void
}

; Only while no thread runs: drop what is queued and every block, and forget the threads.
define void @empty(ptr %pool) {
entry:
  FIELD ticket submitted avoided kept named threads wanted sleepers mask ring
  store i32 -1, ptr %avoided
  store i32 0, ptr %kept
  store i32 0, ptr %named
  call void @llvm.memset.p0.i64(ptr %threads, i8 0, i64 @THREADS, i1 false)
  %n = load i64, ptr %submitted
  %t = shl i64 %n, @BITS
  store i64 %t, ptr %ticket
  store i64 -1, ptr %wanted
  store i32 0, ptr %sleepers
  %last = load i64, ptr %mask
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %each ]
  %slot = call ptr @slot(ptr %pool, i64 %i)
  OF %slot block capacity
  %old = load ptr, ptr %slot.block
  call void @free(ptr %old)
  store ptr null, ptr %slot.block
  store i64 0, ptr %slot.capacity
  %next = add i64 %i, 1
  %more = icmp ule i64 %next, %last
  br i1 %more, label %each, label %end
end:
  ret void
}
"""
