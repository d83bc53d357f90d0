import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.store.DefaultMessageStore;

/** A broker that listens on loopback alone: its service for replicas would bind every address, and there are no replicas. */
public class LoopbackBroker {
    public static void main(String[] options) {
        BrokerController broker = BrokerStartup.start(BrokerStartup.createBrokerController(options));
        ((DefaultMessageStore) broker.getMessageStore()).getHaService().shutdown();
        System.out.println("READY");
    }
}
