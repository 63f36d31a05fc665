// go-redis: strings, pipelines, optimistic transactions, types, scripts, channels.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func check(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("found %v, expected %v", found, expected))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func transactions(client *redis.Client) {
	increment := func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, "a").Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "a", n+1, redis.KeepTTL).Err()
		})
		return err
	}
	check(client.Watch(ctx, increment, "a"), nil)
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		client.Set(ctx, "a", 9, 0)
		return increment(tx)
	}, "a")
	if !errors.Is(err, redis.TxFailedErr) {
		panic("the watch was not noticed")
	}
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		must(client.FlushAll(ctx).Result())
		check(must(client.SetNX(ctx, "a", 1, time.Minute).Result()), true)
		transactions(client)
		pipe := client.Pipeline()
		get := pipe.Get(ctx, "a")
		missing := pipe.Get(ctx, "missing")
		_, _ = pipe.Exec(ctx)
		check(get.Val(), "9")
		check(missing.Err(), redis.Nil)
		check(must(client.HSet(ctx, "h", "f", 1, "g", 2).Result()), int64(2))
		check(must(client.HGetAll(ctx, "h").Result()), map[string]string{"f": "1", "g": "2"})
		check(must(client.RPush(ctx, "l", "x", "y").Result()), int64(2))
		check(must(client.BLPop(ctx, time.Second, "l").Result()), []string{"l", "x"})
		check(must(client.SAdd(ctx, "s", "m").Result()), int64(1))
		check(must(client.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Result()), int64(1))
		check(must(client.ZRangeWithScores(ctx, "z", 0, -1).Result()), []redis.Z{{Score: 1.5, Member: "m"}})
		must(client.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []string{"f", "v"}}).Result())
		check(len(must(client.XRange(ctx, "x", "-", "+").Result())), 1)
		double := redis.NewScript("return redis.call('GET', KEYS[1]) * 2")
		check(must(double.Run(ctx, client, []string{"a"}).Int()), 18)
		channel := client.Subscribe(ctx, "news")
		must(channel.Receive(ctx))
		check(must(client.Publish(ctx, "news", "hello").Result()), int64(1))
		check(must(channel.ReceiveMessage(ctx)).Payload, "hello")
		check(channel.Close(), nil)
		check(client.Close(), nil)
	}
	fmt.Println("done")
}
