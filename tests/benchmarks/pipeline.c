/* What streamsim/compiled/kernel.py does for any program, in C and for plain pipelines alone: the first chunks of
   one size and the others of another, each with buffers of its own, no events. The yardstick of bench_compiled.py.
   The records are those of kernel.py; the rules are explained there. */
#include <stdint.h>

#define FOREVER (1LL << 62)
#define NONE (-1)
#define FULL_CARD (1 << 20)
#define PACES 8
#define PACE (FULL_CARD / PACES)
#define QUEUES 64
#define CROWD 4
#define MOST_OPS 300000
#define JOBS 32767
#define CHUNK_SHIFT 15

typedef int64_t i64;
typedef uint64_t u64;

#include "records.h" /* Card, Shape, Config and Run, as kernel.py has them: written by bench_compiled.py */

typedef struct { i64 end, given, left, since, op; const Shape *shape; } Running;
typedef struct { i64 op, tick; } Draining;

enum { H2D, D2H, COMPUTE, LANES };
enum { ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST };

static i64 tick[LANES * QUEUES], next[LANES], seen[LANES][MOST_OPS], turn[LANES];
static i64 issue[LANES], stride[LANES], call[LANES];
static i64 head[LANES * QUEUES], queues[LANES], jobs[LANES];
static u64 mask[LANES];
static Running running[1024];
static Draining draining[MOST_OPS];

static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 ticks(i64 units, i64 rate) { return (i64)(((u64)units + (u64)(rate - 1)) / (u64)rate); }

static inline i64 idle(const Shape *shape, i64 held) {
    i64 step = held / PACE, rest = held % PACE, idle = shape->idle[step];
    return idle - (idle - shape->idle[step + 1]) * rest / PACE;
}

static inline i64 share(i64 n, i64 now, i64 *end) {
    i64 room = FULL_CARD, held = 0;
    *end = FOREVER;
    for (i64 k = 0; k < n; k++) {
        Running *kernel = &running[k];
        const Shape *shape = kernel->shape;
        held += shape->threads;
        i64 given = least(shape->width, room);
        if (shape->threads < held && held < FULL_CARD)
            given = least(given, most(room, idle(shape, held - shape->threads)) - idle(shape, held));
        given = most(1, given);
        if (given != kernel->given) {
            kernel->left -= kernel->given * (now - kernel->since);
            kernel->since = now;
            kernel->given = given;
            kernel->end = now + ticks(kernel->left, given);
        }
        room -= given;
        *end = least(*end, kernel->end);
    }
    return room;
}

static inline i64 flowed(i64 since, i64 now, i64 begins, i64 left, i64 alone, i64 shared, i64 other_begins)
{
    begins = least(most(since, begins), now);
    i64 meets = least(most(begins, other_begins), now);
    return left - (meets - begins) * alone - (now - meets) * shared;
}

static inline i64 next_end(i64 since, i64 begins_a, i64 left_a, i64 alone_a, i64 shared_a, i64 begins_b, i64 left_b,
                           i64 alone_b, i64 shared_b, i64 *then_a, i64 *then_b)
{
    i64 end = FOREVER;
    int swapped = begins_a > begins_b;
    if (swapped) {
        i64 t = begins_a; begins_a = begins_b; begins_b = t;
        t = left_a; left_a = left_b; left_b = t;
        t = shared_a; shared_a = shared_b; shared_b = t;
        alone_a = alone_b;
    }
    if (begins_a < FOREVER) {
        since = most(since, begins_a);
        if (begins_b > since && (begins_b == FOREVER || left_a <= (begins_b - since) * alone_a)) {
            end = since + ticks(left_a, alone_a);
            left_a = 0;
        } else {
            i64 both = most(since, begins_b);
            left_a -= (both - since) * alone_a;
            i64 until = least(ticks(left_a, shared_a), ticks(left_b, shared_b));
            end = both + until;
            left_a -= until * shared_a;
            left_b -= until * shared_b;
        }
    }
    *then_a = swapped ? left_b : left_a;
    *then_b = swapped ? left_a : left_b;
    return end;
}

static inline int choose(int lane, i64 rule, i64 now)
{
    const i64 *ready = tick + lane * QUEUES;
    const i64 *op = head + lane * QUEUES;
    u64 rest = mask[lane];
    i64 soon = FOREVER, best = FOREVER;
    int found = NONE;
    if (rule == SAME_QUEUE_FIRST) {
        if (ready[turn[lane]] <= now) return (int)turn[lane];
        u64 can = 0;
        for (; rest; rest &= rest - 1) {
            int queue = __builtin_ctzll(rest);
            can |= (u64)(ready[queue] <= now) << queue;
            soon = least(soon, ready[queue]);
        }
        if (can) {
            u64 later = can & -(2ULL << turn[lane]);
            return (int)(turn[lane] = __builtin_ctzll(later ? later : can));
        }
        next[lane] = soon;
        return NONE;
    }
    for (; rest; rest &= rest - 1) {
        int queue = __builtin_ctzll(rest);
        if (ready[queue] <= now) {
            i64 rank = rule == ISSUE_ORDER ? op[queue] : ready[queue];
            if (rank < best || (rank == best && op[queue] < op[found])) best = rank, found = queue;
        }
        soon = least(soon, ready[queue]);
    }
    if (found == NONE) next[lane] = soon;
    return found;
}

static inline void next_head(int lane, int queue, i64 chunks)
{
    int place = lane * QUEUES + queue;
    i64 chunk = head[place] >> CHUNK_SHIFT, job = (head[place] & JOBS) + 1;
    tick[place] = FOREVER;
    if (job < jobs[lane]) {
        head[place]++;
        tick[place] = seen[lane][chunk * jobs[lane] + job];
    } else {
        i64 follower = chunk + queues[lane];
        head[place] = follower << CHUNK_SHIFT;
        if (follower < chunks) tick[place] = seen[lane][follower * jobs[lane]];
    }
    if (tick[place] == FOREVER) mask[lane] &= ~(1ULL << queue);
    else next[lane] = least(next[lane], tick[place]);
}

static inline void may_start(int lane, i64 op, i64 at)
{
    i64 chunk = op >> CHUNK_SHIFT, job = op & JOBS, queue = (uint32_t)chunk % (uint32_t)queues[lane];
    i64 place = lane * QUEUES + queue;
    at = most(at, issue[lane] + chunk * stride[lane] + job * call[lane]);
    seen[lane][chunk * jobs[lane] + job] = at;
    if (head[place] == op) {
        tick[place] = at;
        mask[lane] |= 1ULL << queue;
        next[lane] = least(next[lane], at);
    }
}

static i64 follows[LANES], first_lane;

static inline i64 go_on(int lane, i64 op, i64 now, const i64 *hand_over, i64 breadth, i64 chunks, i64 streams,
                        i64 coming)
{
    i64 to = lane, chunk = op >> CHUNK_SHIFT;
    if ((++op & JOBS) == jobs[lane]) {
        op -= jobs[lane];
        to = follows[lane];
        if (breadth) {
            if (chunk + streams < chunks) op += streams << CHUNK_SHIFT, to = lane;
            else op -= (chunk - chunk % streams) << CHUNK_SHIFT;
        } else if (to == NONE) {
            op += streams << CHUNK_SHIFT;
            to = chunk + streams < chunks ? first_lane : NONE;
        }
    }
    if (to != NONE) may_start((int)to, op, now + hand_over[lane * 4 + to]);
    return lane != COMPUTE && to == COMPUTE && (op >> CHUNK_SHIFT) < coming;
}

static i64 pipeline(const Card *card, const Config *config, const Run *runs, const i64 *hand_over, const i64 *stages,
                    const Shape *shapes)
{
    const i64 chunks = config->chunks, streams = config->streams, breadth = config->breadth;
    const Run *large = runs + config->runs_from, *small = runs + config->runs_to - 1;
    const i64 larger = large == small ? 0 : large->end;
    const i64 linked = card->linked, side_by_side = card->concurrent;
    const int lane_of_stage[3] = {H2D, COMPUTE, D2H};
    i64 whole = 0, called = 0, shape_of[LANES], before = NONE, first = 0;
    for (int stage = 0; stage < 3; stage++) {
        int lane = lane_of_stage[stage];
        jobs[lane] = stages[stage];
        queues[lane] = least(stage == 1 ? card->kernel_connections : card->copy_connections, streams);
        call[lane] = stages[stage] ? shapes[small->row + first].call + config->more : 0;
        shape_of[lane] = first;
        first += stages[stage];
        whole += stages[stage] * call[lane];
    }
    for (int stage = 0; stage < 3; stage++) {
        int lane = lane_of_stage[stage];
        i64 own = jobs[lane] * call[lane];
        follows[lane] = NONE;
        if (jobs[lane]) {
            if (before == NONE) first_lane = lane;
            else follows[before] = lane;
            before = lane;
        }
        issue[lane] = config->launch + card->submit + call[lane] + (breadth ? called * chunks : called);
        stride[lane] = breadth ? own : whole;
        called += own;
        for (i64 k = 0; k < chunks * jobs[lane]; k++) seen[lane][k] = FOREVER;
    }
    for (int lane = 0; lane < LANES; lane++) mask[lane] = 0, turn[lane] = QUEUES - 1, next[lane] = FOREVER;
    for (int k = 0; k < LANES * QUEUES; k++) tick[k] = FOREVER;
    for (int lane = 0; lane < LANES; lane++) {
        for (i64 queue = 0; queue < queues[lane]; queue++) head[lane * QUEUES + queue] = queue << CHUNK_SHIFT;
    }
    for (i64 chunk = 0; chunk < streams; chunk++) may_start((int)first_lane, chunk << CHUNK_SHIFT, 0);
    i64 waiting = 0, coming = 0, crowd_ends = 0;
    if (card->crowds && stages[1]) {
        if (stages[0]) crowd_ends = breadth ? streams : chunks;
        else if (stages[2] && !breadth) coming = streams, crowd_ends = chunks;
    }
    const i64 most_queues = least(least(CROWD, card->kernel_connections), least(streams, crowd_ends - coming));
    i64 comes = coming < crowd_ends ? issue[COMPUTE] + coming * stride[COMPUTE] : FOREVER;

    i64 op_a = NONE, op_b = NONE, then_a = 0, then_b = 0;
    i64 end_a = FOREVER, end_b = FOREVER, copies_end = FOREVER, begins_a = FOREVER, begins_b = FOREVER;
    i64 left_a = 0, left_b = 0, settled = 0, alone_a = 1, alone_b = 1, shared_a = 1, shared_b = 1;
    i64 n = 0, room = FULL_CARD, compute_end = FOREVER, now = 0, last_end = 0;
    i64 drained = 0, drains = 0, drain_end = FOREVER;
    int changed = 0;
    for (;;) {
#define START(x, y, lane)                                                                                      \
    if (op_##x == NONE && next[lane] <= now) {                                                                 \
        int queue = choose(lane, card->copy_rule, now);                                                        \
        if (queue != NONE) {                                                                                   \
            op_##x = head[lane * QUEUES + queue];                                                              \
            const Shape *copy = &shapes[((op_##x >> CHUNK_SHIFT) < larger ? large->row : small->row) +   \
                                        shape_of[lane] + (op_##x & JOBS)];                                     \
            while (comes <= now) {                                                                             \
                waiting += seen[COMPUTE][coming * jobs[COMPUTE]] == FOREVER;                                   \
                coming++;                                                                                      \
                comes = coming < crowd_ends ? issue[COMPUTE] + coming * stride[COMPUTE] : FOREVER;             \
            }                                                                                                  \
            i64 level = most(0, least(most_queues, waiting) - 1);                                              \
            if (linked) {                                                                                      \
                left_##y = flowed(settled, now, begins_##y, left_##y, alone_##y, shared_##y, begins_##x);      \
                settled = now;                                                                                 \
                begins_##x = now + copy->latency[level + CROWD * (op_##y != NONE)];                            \
                left_##x = copy->units, alone_##x = copy->alone, shared_##x = copy->shared;                    \
            } else end_##x = now + copy->duration + copy->latency[level] - copy->latency[0];                   \
            changed = 1;                                                                                       \
            next_head(lane, queue, chunks);                                                                    \
        }                                                                                                      \
    }
        START(a, b, H2D)
        START(b, a, D2H)
        if (changed) {
            changed = 0;
            copies_end = linked ? next_end(settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b,
                                           shared_b, &then_a, &then_b)
                                : least(end_a, end_b);
        }
        while (next[COMPUTE] <= now && room > 0 && n < side_by_side) {
            int queue = choose(COMPUTE, card->kernel_rule, now);
            if (queue == NONE) break;
            Running *kernel = &running[n++];
            kernel->op = head[COMPUTE * QUEUES + queue];
            const Shape *shape = &shapes[((kernel->op >> CHUNK_SHIFT) < larger ? large->row : small->row) +
                                         shape_of[COMPUTE] + (kernel->op & JOBS)];
            kernel->shape = shape;
            kernel->since = now;
            kernel->left = (shape->duration - shape->drain) * shape->width;
            if (n == 1) {
                kernel->given = shape->width;
                kernel->end = compute_end = now + shape->duration - shape->drain;
                room = FULL_CARD - shape->width;
            } else {
                kernel->given = 0;
                room = share(n, now, &compute_end);
            }
            next_head(COMPUTE, queue, chunks);
        }
        now = least(least(copies_end, compute_end), drain_end);
        if (op_a == NONE) now = least(now, next[H2D]);
        if (op_b == NONE) now = least(now, next[D2H]);
        if (room > 0 && n < side_by_side) now = least(now, next[COMPUTE]);
        if (now == FOREVER) return last_end;
        if (now == copies_end) {
            last_end = now;
            changed = 1;
            if (linked) {
                left_a = then_a, left_b = then_b, settled = now;
                if (op_a != NONE && left_a <= 0) end_a = now;
                if (op_b != NONE && left_b <= 0) end_b = now;
            }
            if (end_a == now) {
                waiting -= go_on(H2D, op_a, now, hand_over, breadth, chunks, streams, coming);
                op_a = NONE;
                end_a = begins_a = FOREVER;
                next[H2D] = now;
            }
            if (end_b == now) {
                waiting -= go_on(D2H, op_b, now, hand_over, breadth, chunks, streams, coming);
                op_b = NONE;
                end_b = begins_b = FOREVER;
                next[D2H] = now;
            }
        }
        if (now == compute_end) {
            i64 kept = 0;
            for (i64 k = 0; k < n; k++) {
                if (running[k].end <= now) {
                    Draining new = {running[k].op, now + running[k].shape->drain};
                    i64 at = drains++;
                    for (; at > drained && draining[at - 1].tick > new.tick; at--) draining[at] = draining[at - 1];
                    draining[at] = new;
                } else {
                    if (kept < k) running[kept] = running[k];
                    kept++;
                }
            }
            n = kept;
            next[COMPUTE] = now;
            room = share(n, now, &compute_end);
            drain_end = drained < drains ? draining[drained].tick : FOREVER;
        }
        while (drain_end <= now) {
            last_end = now;
            go_on(COMPUTE, draining[drained++].op, now, hand_over, breadth, chunks, streams, coming);
            drain_end = drained < drains ? draining[drained].tick : FOREVER;
        }
    }
}

void run_pipelines(const Card *card, const i64 *hand_over, const Config *configs, i64 n, const Run *runs,
                   const i64 *stages, const Shape *shapes, i64 *makespans)
{
    for (i64 k = 0; k < n; k++)
        makespans[k] = pipeline(card, &configs[k], runs, hand_over, stages, shapes);
}
