// The driver of amqp091-go: see docs/reference/client-drivers.md.
package main

import (
	"fmt"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type delivered struct {
	channel *amqp.Channel
	tag     uint64
}

var (
	connection *amqp.Connection
	channels   = map[int]*amqp.Channel{}
	queues     = map[string]string{}
	received   []delivered
)

func connect(asked command) error {
	beat := time.Millisecond // below a second: the server's interval; 0 would be 10 s
	if asked.Heartbeat > 0 {
		beat = time.Duration(asked.Heartbeat) * time.Second
	}
	config := amqp.Config{
		SASL:      []amqp.Authentication{&amqp.PlainAuth{Username: asked.Login, Password: asked.Passcode}},
		Vhost:     asked.Vhost,
		Heartbeat: beat,
	}
	made, err := amqp.DialConfig(fmt.Sprintf("amqp://%s:%d/%s", asked.Host, asked.Port, url.PathEscape(asked.Vhost)), config)
	if err != nil {
		reportError(err)
		report("disconnected", nil)
		return err
	}
	connection = made
	closed := made.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if problem := <-closed; problem != nil {
			reportError(problem)
		}
		report("disconnected", nil)
	}()
	blocked := made.NotifyBlocked(make(chan amqp.Blocking, 9))
	go func() {
		for told := range blocked {
			report(map[bool]string{true: "blocked", false: "unblocked"}[told.Active], nil)
		}
	}()
	report("connected", nil)
	return nil
}

func open(number int) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	state.Lock()
	channels[number] = channel
	state.Unlock()
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	flows := channel.NotifyFlow(make(chan bool, 9))
	cancels := channel.NotifyCancel(make(chan string, 9))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 99))
	go func() {
		if problem := <-closed; problem != nil {
			reportError(problem)
		}
		report("channel-closed", map[string]any{"channel": number})
	}()
	go func() {
		for active := range flows {
			report("flow", map[string]any{"active": active})
		}
	}()
	go func() {
		for tag := range cancels {
			state.Lock()
			queue := queues[tag]
			state.Unlock()
			report("cancelled", map[string]any{"queue": queue})
		}
	}()
	go func() {
		for one := range confirms {
			report("confirmed", map[string]any{"number": one.DeliveryTag, "ok": one.Ack})
		}
	}()
	report("channel-open", map[string]any{"channel": number})
	return nil
}

func listen(channel *amqp.Channel, queue string, messages <-chan amqp.Delivery) {
	for message := range messages {
		reportMessage(map[string]string{"queue": queue}, message.Body, func() {
			received = append(received, delivered{channel, message.DeliveryTag})
		})
	}
}

func obey(asked command) error {
	state.Lock()
	channel := channels[asked.Channel]
	state.Unlock()
	switch asked.Do {
	case "connect":
		return connect(asked)
	case "channel":
		return open(asked.Channel)
	case "consume":
		tag := "consumer-" + asked.Queue
		state.Lock()
		queues[tag] = asked.Queue
		state.Unlock()
		messages, err := channel.Consume(asked.Queue, tag, asked.NoAck, false, false, false, nil)
		if err == nil {
			go listen(channel, asked.Queue, messages)
		}
		return err
	case "publish":
		return channel.Publish("", asked.Queue, false, false, amqp.Publishing{Body: asked.content()})
	case "ack", "reject":
		state.Lock()
		one := received[asked.Message-1]
		state.Unlock()
		if asked.Do == "reject" {
			return one.channel.Reject(one.tag, false)
		}
		return one.channel.Ack(one.tag, asked.Multiple)
	case "confirm":
		return channel.Confirm(false)
	case "close_channel":
		go channel.Close()
		return nil
	case "disconnect":
		go connection.Close()
		return nil
	}
	return fmt.Errorf("there is no command %q", asked.Do)
}

func main() {
	serve("amqp091-go", "github.com/rabbitmq/amqp091-go", obey, "connect", "channel")
}
