import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;

/** One node of the core and its network plugin: java -cp 'lib/*:classes' Elasticsearch7Node HOME PORT [setting=value …] */
public class Elasticsearch7Node extends Node {
    Elasticsearch7Node(Environment environment) {
        super(environment, List.of(org.elasticsearch.transport.Netty4Plugin.class), true);
    }

    public static void main(String[] words) throws Exception {
        Path config = Files.createDirectories(SearchNode.home(words).resolve("config"));
        Settings.Builder settings = Settings.builder().put("http.type", "netty4").put("transport.type", "netty4");
        SearchNode.settings(words).forEach((name, value) -> settings.put(name, value));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), config, () -> "node");
        Node node = new Elasticsearch7Node(environment);
        SearchNode.run(node, node::start);
    }
}
