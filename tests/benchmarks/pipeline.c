/* What streamsim/compiled/kernel.py does for plain pipelines, in C: the yardstick of bench_compiled.py.
   The records are those of kernel.py, field by field; the rules are explained there. */
#include <stdint.h>

#define FOREVER (1LL << 62)
#define NONE (-1)
#define FULL_CARD (1 << 20)
#define QUEUES 64
#define MOST_CHUNKS 100000
#define MOST_OPS 300000

typedef int64_t i64;
typedef int32_t i32;
typedef uint8_t u8;
typedef uint64_t u64;

typedef struct { i64 submit, wake, event, change, linked, concurrent, copy_rule, kernel_rule; } Card;
typedef struct { i64 kind, call, duration, units, latency, duplex_latency, alone, shared, width, holds; } Shape;
typedef struct { i64 plain, breadth, chunks, streams, slots, larger, row_a, row_b, record, wait, launch; } Config;
typedef struct { i64 end, given, width, left, since; i32 chunk, job; } Running;

enum { H2D, D2H, COMPUTE, LANES };
enum { ISSUE_ORDER, READY_ORDER, SAME_QUEUE_FIRST };

static i64 tick[LANES * QUEUES], next[LANES], seen[LANES][MOST_OPS], turn[LANES], last_queue[2], freed[2];
static i64 issue[LANES], stride[LANES], call[LANES];
static i32 head[LANES * QUEUES], head_job[LANES * QUEUES], behind[MOST_CHUNKS], jobs[LANES];
static u64 mask[LANES];
static u8 queue_of[MOST_CHUNKS];
static Running running[1024];

static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }
static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 ticks(i64 units, i64 rate) { return (i64)(((u64)units + (u64)(rate - 1)) / (u64)rate); }

static inline i64 flowed(i64 since, i64 now, i64 begins, i64 left, i64 alone, i64 shared, i64 other_begins)
{
    begins = least(most(since, begins), now);
    i64 meets = least(most(begins, other_begins), now);
    return left - (meets - begins) * alone - (now - meets) * shared;
}

static inline i64 next_end(i64 since, i64 begins_a, i64 left_a, i64 alone_a, i64 shared_a, i64 begins_b, i64 left_b,
                           i64 alone_b, i64 shared_b)
{
    if (begins_a > begins_b) {
        i64 t = begins_a; begins_a = begins_b; begins_b = t;
        t = left_a; left_a = left_b; left_b = t;
        t = shared_a; shared_a = shared_b; shared_b = t;
        alone_a = alone_b;
    }
    if (begins_a == FOREVER) return FOREVER;
    since = most(since, begins_a);
    if (begins_b > since) {
        if (begins_b == FOREVER || left_a <= (begins_b - since) * alone_a) return since + ticks(left_a, alone_a);
        left_a -= (begins_b - since) * alone_a;
        since = begins_b;
    }
    return since + least(ticks(left_a, shared_a), ticks(left_b, shared_b));
}

static inline int choose(int lane, i64 rule, i64 now)
{
    const i64 *ready = tick + lane * QUEUES;
    const i32 *op = head + lane * QUEUES;
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

static inline void next_head(int lane, int queue, i32 chunk, i32 job, i64 chunks)
{
    int place = lane * QUEUES + queue;
    if (++job == jobs[lane]) job = 0, chunk = behind[chunk];
    head[place] = chunk;
    head_job[place] = job;
    tick[place] = chunk < chunks ? seen[lane][chunk * jobs[lane] + job] : FOREVER;
    if (tick[place] == FOREVER) mask[lane] &= ~(1ULL << queue);
    else next[lane] = least(next[lane], tick[place]);
}

static inline void may_start(int lane, i32 chunk, i32 job, i64 at)
{
    int queue = queue_of[chunk], place = lane * QUEUES + queue;
    at = most(at, issue[lane] + chunk * stride[lane] + job * call[lane]);
    seen[lane][chunk * jobs[lane] + job] = at;
    if (head[place] == chunk && head_job[place] == job) {
        tick[place] = at;
        mask[lane] |= 1ULL << queue;
        next[lane] = least(next[lane], at);
    }
}

static i64 follows[LANES], first_lane;

static inline void go_on(int lane, i32 chunk, i32 job, i64 now, const i64 *hand_over, i64 breadth, i64 chunks,
                         i64 streams)
{
    i64 to = lane;
    if (++job == jobs[lane]) {
        job = 0;
        to = follows[lane];
        if (breadth) {
            if (chunk + streams < chunks) chunk += streams, to = lane;
            else chunk %= streams;
        } else if (to == NONE) {
            chunk += streams;
            to = first_lane;
            if (chunk >= chunks) return;
        }
    }
    if (to != NONE) may_start((int)to, chunk, job, now + hand_over[lane * 4 + to]);
}

static i64 pipeline(const Card *card, const Config *config, const i64 *hand_over, const i64 *stages,
                    const Shape *shapes, const u8 *connection)
{
    const i64 chunks = config->chunks, streams = config->streams, larger = config->larger, breadth = config->breadth;
    const i64 linked = card->linked, change = card->change, side_by_side = card->concurrent;
    const int lane_of_stage[3] = {H2D, COMPUTE, D2H};
    i64 whole = 0, called = 0, shape_of[LANES], before = NONE, first = 0;
    i32 tails[QUEUES];
    for (int stage = 0; stage < 3; stage++) {
        int lane = lane_of_stage[stage];
        jobs[lane] = (i32)stages[stage];
        call[lane] = stages[stage] ? shapes[config->row_b + first].call : 0;
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
    last_queue[0] = last_queue[1] = NONE;
    freed[0] = freed[1] = 0;
    for (i64 chunk = 0, stream = 0; chunk < chunks; chunk++) {
        queue_of[chunk] = connection[stream];
        if (++stream == streams) stream = 0;
    }
    for (int queue = 0; queue < QUEUES; queue++) tails[queue] = (i32)chunks;
    for (i64 chunk = chunks - 1; chunk >= 0; chunk--) {
        behind[chunk] = tails[queue_of[chunk]];
        tails[queue_of[chunk]] = (i32)chunk;
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int queue = 0; queue < QUEUES; queue++)
            head[lane * QUEUES + queue] = tails[queue], head_job[lane * QUEUES + queue] = 0;
    for (i32 chunk = 0; chunk < streams; chunk++) may_start((int)first_lane, chunk, 0, 0);

    i32 chunk_a = NONE, job_a = 0, chunk_b = NONE, job_b = 0;
    i64 end_a = FOREVER, end_b = FOREVER, copies_end = FOREVER, begins_a = FOREVER, begins_b = FOREVER;
    i64 left_a = 0, left_b = 0, settled = 0, alone_a = 1, alone_b = 1, shared_a = 1, shared_b = 1;
    i64 n = 0, room = FULL_CARD, compute_end = FOREVER, now = 0, last_end = 0;
    int changed = 0;
    for (;;) {
#define START(x, y, lane)                                                                                      \
    if (chunk_##x == NONE && next[lane] <= now) {                                                              \
        int queue = choose(lane, card->copy_rule, now);                                                        \
        if (queue != NONE) {                                                                                   \
            chunk_##x = head[lane * QUEUES + queue];                                                           \
            job_##x = head_job[lane * QUEUES + queue];                                                         \
            const Shape *copy =                                                                                \
                &shapes[(chunk_##x < larger ? config->row_a : config->row_b) + shape_of[lane] + job_##x];      \
            i64 turning = last_queue[lane] == queue || last_queue[lane] == NONE                                \
                              ? 0 : most(0, change - (now - freed[lane]));                                     \
            last_queue[lane] = queue;                                                                          \
            if (linked) {                                                                                      \
                left_##y = flowed(settled, now, begins_##y, left_##y, alone_##y, shared_##y, begins_##x);      \
                settled = now;                                                                                 \
                begins_##x = now + turning + (chunk_##y == NONE ? copy->latency : copy->duplex_latency);       \
                left_##x = copy->units, alone_##x = copy->alone, shared_##x = copy->shared;                    \
            } else end_##x = freed[lane] = now + copy->duration + turning;                                     \
            changed = 1;                                                                                       \
            next_head(lane, queue, chunk_##x, job_##x, chunks);                                                \
        }                                                                                                      \
    }
        START(a, b, H2D)
        START(b, a, D2H)
        if (changed) {
            changed = 0;
            copies_end = linked ? next_end(settled, begins_a, left_a, alone_a, shared_a, begins_b, left_b, alone_b,
                                           shared_b)
                                : least(end_a, end_b);
        }
        while (next[COMPUTE] <= now && room && n < side_by_side) {
            int queue = choose(COMPUTE, card->kernel_rule, now);
            if (queue == NONE) break;
            Running *kernel = &running[n++];
            kernel->chunk = head[COMPUTE * QUEUES + queue];
            kernel->job = head_job[COMPUTE * QUEUES + queue];
            const Shape *shape =
                &shapes[(kernel->chunk < larger ? config->row_a : config->row_b) + shape_of[COMPUTE] + kernel->job];
            kernel->width = shape->width;
            if (shape->width <= room) {
                kernel->given = shape->width;
                kernel->end = now + shape->duration;
            } else {
                kernel->since = now;
                kernel->given = room;
                kernel->left = shape->duration * shape->width;
                kernel->end = now + ticks(kernel->left, room);
            }
            room -= kernel->given;
            compute_end = least(compute_end, kernel->end);
            next_head(COMPUTE, queue, kernel->chunk, kernel->job, chunks);
        }
        now = least(copies_end, compute_end);
        if (chunk_a == NONE) now = least(now, next[H2D]);
        if (chunk_b == NONE) now = least(now, next[D2H]);
        if (room && n < side_by_side) now = least(now, next[COMPUTE]);
        if (now == FOREVER) return last_end;
        if (now == copies_end) {
            i32 chunk;
            last_end = now;
            changed = 1;
            if (linked) {
                i64 was_a = left_a;
                left_a = flowed(settled, now, begins_a, was_a, alone_a, shared_a, begins_b);
                left_b = flowed(settled, now, begins_b, left_b, alone_b, shared_b, begins_a);
                settled = now;
                if (chunk_a != NONE && left_a <= 0) end_a = freed[H2D] = now;
                if (chunk_b != NONE && left_b <= 0) end_b = freed[D2H] = now;
            }
            if (end_a == now) {
                chunk = chunk_a;
                chunk_a = NONE;
                end_a = begins_a = FOREVER;
                next[H2D] = now;
                go_on(H2D, chunk, job_a, now, hand_over, breadth, chunks, streams);
            }
            if (end_b == now) {
                chunk = chunk_b;
                chunk_b = NONE;
                end_b = begins_b = FOREVER;
                next[D2H] = now;
                go_on(D2H, chunk, job_b, now, hand_over, breadth, chunks, streams);
            }
        }
        if (now == compute_end) {
            i64 kept = 0;
            last_end = now;
            for (i64 k = 0; k < n; k++) {
                if (running[k].end <= now) {
                    room += running[k].given;
                    go_on(COMPUTE, running[k].chunk, running[k].job, now, hand_over, breadth, chunks, streams);
                } else {
                    if (kept < k) running[kept] = running[k];
                    kept++;
                }
            }
            n = kept;
            compute_end = FOREVER;
            next[COMPUTE] = now;
            for (i64 k = 0; k < n; k++) {
                Running *kernel = &running[k];
                if (room && kernel->given < kernel->width) {
                    i64 more = kernel->given + room;
                    kernel->left -= kernel->given * (now - kernel->since);
                    kernel->since = now;
                    kernel->given = least(kernel->width, more);
                    kernel->end = now + ticks(kernel->left, kernel->given);
                    room = more - kernel->given;
                }
                compute_end = least(compute_end, kernel->end);
            }
        }
    }
}

void run_pipelines(const Card *card, const i64 *hand_over, const Config *configs, i64 n, const i64 *stages,
                   const Shape *shapes, const u8 *connection, i64 *makespans)
{
    for (i64 k = 0; k < n; k++)
        makespans[k] = pipeline(card, &configs[k], hand_over, stages, shapes, connection);
}
