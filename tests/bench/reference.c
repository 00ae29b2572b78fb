/* Sends prepared datagrams from a file with sendmmsg, as fast as possible: the reference for a resend. It must not know
 * their contents.
 *
 *   reference PORT FILE
 *
 * The file contains for each datagram its length (32 bits, native byte order) and its bytes. It prints one line of JSON
 * with the cost of sending, without reading the file.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64 };

static double wall(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: reference PORT FILE\n");
        return 2;
    }
    int file = open(arguments[2], O_RDONLY);
    struct stat found;
    if (file < 0 || fstat(file, &found)) fail(arguments[2]);
    char *content = mmap(NULL, found.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (content == MAP_FAILED) fail("mmap");
    int link = socket(AF_INET, SOCK_DGRAM, 0), bytes = 4 << 20;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(link, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    if (link < 0 || connect(link, (struct sockaddr *)&address, sizeof address)) fail("connect");

    static struct iovec vectors[BATCH];
    static struct mmsghdr messages[BATCH];
    for (int at = 0; at < BATCH; at++) messages[at].msg_hdr = (struct msghdr){.msg_iov = &vectors[at], .msg_iovlen = 1};
    uint64_t datagrams = 0, calls = 0;
    double began = wall(), spent = cpu();
    for (char *at = content, *end = content + found.st_size; at < end;) {
        int ready = 0;
        for (; ready < BATCH && at < end; ready++) {
            uint32_t length;
            memcpy(&length, at, sizeof length);
            vectors[ready] = (struct iovec){at + sizeof length, length};
            at += sizeof length + length;
        }
        for (int sent = 0; sent < ready;) {
            int now = sendmmsg(link, messages + sent, ready - sent, 0);
            if (now < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR) fail("sendmmsg");
            calls++;
            if (now > 0) sent += now;
        }
        datagrams += ready;
    }
    printf("{\"datagrams\": %lu, \"calls\": %lu, \"seconds\": %.4f, \"cpu_seconds\": %.4f}\n", datagrams, calls,
           wall() - began, cpu() - spent);
    return 0;
}
