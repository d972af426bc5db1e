import jakarta.jms.*;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** What ActiveMQ's own client does with a broker, step by step. Each step prints a line; what fails, says so and ends it. */
public class JmsClient {
    private static final long PATIENCE_MS = 5000;

    private final ActiveMQConnection connection;

    private JmsClient(String url, String login, String passcode, String id) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(login, passcode, url);
        connection = (ActiveMQConnection) factory.createConnection();
        connection.setClientID(id);
        connection.start();
    }

    public static void main(String[] args) throws Exception {
        String url = args[0], login = args[1], passcode = args[2], prefix = args[3];
        JmsClient client = new JmsClient(url + "?jms.producerWindowSize=4096", login, passcode, "client-" + prefix);
        try {
            client.windows(prefix + ".windows");
            client.prefetch(prefix + ".prefetch?consumer.prefetchSize=3", prefix + ".prefetch");
            client.pulled(prefix + ".pulled?consumer.prefetchSize=0", prefix + ".pulled");
            client.transacted(prefix + ".transacted");
            client.topics(prefix + ".topic");
            client.request(prefix + ".request");
            client.browsed(prefix + ".browsed");
            client.selected(prefix + ".selected");
            client.refused(prefix + ".refused");
        } finally {
            client.connection.close();
        }
        System.out.println("closed");
    }

    private static void check(boolean held, String words) {
        if (!held) throw new AssertionError(words);
    }

    private static List<String> texts(MessageConsumer consumer, int count) throws Exception {
        List<String> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Message came = consumer.receive(PATIENCE_MS);
            check(came != null, "message " + number + " of " + count + " did not come");
            found.add(((TextMessage) came).getText());
        }
        return found;
    }

    private static List<String> send(Session session, MessageProducer producer, int count) throws Exception {
        List<String> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            TextMessage message = session.createTextMessage(number + " \u00e9\u20ac\ud83d\ude00 " + "x".repeat(number * 37));
            message.setIntProperty("number", number);
            message.setStringProperty("word", "w" + number % 2);
            producer.send(message);
            sent.add(message.getText());
        }
        return sent;
    }

    /** Fifty messages of which a few fit into the window: the producer stands still for ever if nobody tells it of any. */
    private void windows(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        List<String> sent = send(session, producer, 50);
        List<String> got = texts(session.createConsumer(queue), 50);
        check(got.equals(sent), "what came is not what was sent");
        session.close();
        System.out.println("windows");
    }

    private void prefetch(String limited, String name) throws Exception {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        List<String> sent = send(session, session.createProducer(session.createQueue(name)), 20);
        MessageConsumer consumer = session.createConsumer(session.createQueue(limited));
        List<String> got = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            TextMessage came = (TextMessage) consumer.receive(PATIENCE_MS);
            check(came != null, "message " + number + " did not come");
            got.add(came.getText());
            if (number % 3 == 0) came.acknowledge();
        }
        check(got.equals(sent), "what came is not what was sent");
        session.close();
        System.out.println("prefetch");
    }

    private void pulled(String limited, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(limited));
        check(consumer.receiveNoWait() == null, "there should be nothing");
        check(consumer.receive(300) == null, "there should still be nothing");
        List<String> sent = send(session, session.createProducer(session.createQueue(name)), 4);
        check(texts(consumer, 4).equals(sent), "what came is not what was sent");
        session.close();
        System.out.println("pulled");
    }

    private void transacted(String name) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        send(session, producer, 3);
        check(consumer.receive(300) == null, "nothing was committed");
        session.rollback();
        List<String> sent = send(session, producer, 3);
        session.commit();
        check(texts(consumer, 3).equals(sent), "what came is not what was sent");
        session.rollback();
        for (int number = 0; number < 3; number++) {
            Message again = consumer.receive(PATIENCE_MS);
            check(again != null && again.getJMSRedelivered(), "message " + number + " should have come again");
        }
        session.commit();
        check(consumer.receive(300) == null, "everything was committed");
        session.close();
        System.out.println("transacted");
    }

    private void topics(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic(name);
        MessageConsumer one = session.createConsumer(topic), two = session.createDurableSubscriber(topic, "durable");
        List<String> sent = send(session, session.createProducer(topic), 5);
        check(texts(one, 5).equals(sent) && texts(two, 5).equals(sent), "what came is not what was sent");
        two.close();
        sent = send(session, session.createProducer(topic), 3);
        check(texts(session.createDurableSubscriber(topic, "durable"), 3).equals(sent), "the durable one missed some");
        session.close();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        session.unsubscribe("durable");
        session.close();
        System.out.println("topics");
    }

    private void request(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        TemporaryQueue answers = session.createTemporaryQueue();
        MessageConsumer served = session.createConsumer(session.createQueue(name)), asked = session.createConsumer(answers);
        BytesMessage question = session.createBytesMessage();
        question.writeBytes(new byte[] {0, 1, 2, -1});
        question.setJMSReplyTo(answers);
        question.setJMSCorrelationID("42");
        session.createProducer(session.createQueue(name)).send(question);
        BytesMessage came = (BytesMessage) served.receive(PATIENCE_MS);
        check(came != null && came.getBodyLength() == 4 && "42".equals(came.getJMSCorrelationID()), "the question is another one");
        session.createProducer(came.getJMSReplyTo()).send(session.createTextMessage("answer"));
        check(texts(asked, 1).equals(List.of("answer")), "the answer is another one");
        asked.close();
        answers.delete();
        session.close();
        System.out.println("request");
    }

    private void browsed(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        List<String> sent = send(session, session.createProducer(queue), 7), seen = new ArrayList<>();
        for (Enumeration<?> each = session.createBrowser(queue).getEnumeration(); each.hasMoreElements();) {
            seen.add(((TextMessage) each.nextElement()).getText());
        }
        check(seen.equals(sent), "what was seen is not what was sent");
        check(texts(session.createConsumer(queue), 7).equals(sent), "looking took something away");
        session.close();
        System.out.println("browsed");
    }

    private void selected(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageConsumer odd = session.createConsumer(queue, "number > 2 AND word = 'w1'");
        MessageConsumer rest = session.createConsumer(queue, "NOT (number > 2 AND word = 'w1')");
        List<String> sent = send(session, session.createProducer(queue), 8);
        check(texts(odd, 3).equals(List.of(sent.get(3), sent.get(5), sent.get(7))), "the selector selected others");
        check(texts(rest, 5).size() == 5, "the others are fewer");
        session.close();
        System.out.println("selected");
    }

    private void refused(String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        try {
            session.createConsumer(session.createQueue(name), "a >");
            check(false, "a selector that is none was taken");
        } catch (InvalidSelectorException expected) {
            System.out.println("refused");
        }
        session.close();
    }
}
